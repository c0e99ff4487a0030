package esker.cassandra;

import com.datastax.driver.core.Cluster;
import com.datastax.driver.core.Session;
import com.datastax.driver.core.SocketOptions;
import com.datastax.driver.core.policies.ConstantReconnectionPolicy;
import esker.Pool;
import esker.Settings;
import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;

/** A Cassandra node in a process of its own, from the jars of this process's class path. */
final class Node implements AutoCloseable {
    static final int CQL_PORT = 19042;

    /** The class of Esker's memtable. */
    static final String MEMTABLE = "esker.cassandra.EskerMemtable";

    /** A pool in this directory is emulated persistent memory. */
    private static final Path EMULATED = Path.of("/dev/shm");

    /** Moves the addresses, so that several runs can share a machine. */
    private static final int FIRST_NUMBER = Integer.getInteger("node.first", 0);

    private static final int STORAGE_PORT = 17000;
    private static final int JMX_PORT = 17199;
    private static final int START_SECONDS = 180;

    private static final List<String> EXPORTS =
            List.of(
                    "java.base/jdk.internal.misc",
                    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
                    "java.rmi/sun.rmi.registry",
                    "java.rmi/sun.rmi.server",
                    "java.rmi/sun.rmi.transport.tcp",
                    "java.sql/java.sql",
                    "jdk.unsupported/sun.misc");
    private static final List<String> OPENS =
            List.of(
                    "java.base/java.io",
                    "java.base/java.lang",
                    "java.base/java.lang.module",
                    "java.base/java.net",
                    "java.base/java.nio",
                    "java.base/java.util",
                    "java.base/java.util.concurrent",
                    "java.base/java.util.concurrent.atomic",
                    "java.base/jdk.internal.loader",
                    "java.base/jdk.internal.math",
                    "java.base/jdk.internal.module",
                    "java.base/jdk.internal.ref",
                    "java.base/jdk.internal.reflect",
                    "java.base/jdk.internal.util.jar",
                    "java.base/sun.nio.ch",
                    "jdk.management/com.sun.management.internal");

    private static final Set<Node> RUNNING = new HashSet<>();

    /** Guarded by {@link #RUNNING}. */
    private static boolean isStopped;

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(Node::stopAll));
    }

    private final Path dir;
    private final int number;
    private final String seed;
    private final Map<String, String> yaml = new LinkedHashMap<>();
    private final List<String> properties = new ArrayList<>();
    private int heapMegabytes = 192;
    private Pool pool;
    private Map<String, String> parameters = Map.of();
    private Process process;

    /** A node with the address 127.0.0.{@code number}, unless {@code node.first} moves it. */
    Node(Path dir, int number) {
        this(dir, number, number);
    }

    /** A node that joins the node {@code seed}. */
    Node(Path dir, int number, int seed) {
        this.dir = dir.toAbsolutePath();
        this.number = FIRST_NUMBER + number;
        this.seed = "127.0.0." + (FIRST_NUMBER + seed);
        yaml.put("auto_bootstrap", "false");
        yaml.put("commitlog_sync", "periodic");
        yaml.put("commitlog_sync_period", "10000ms");
        yaml.put("memtable_allocation_type", "offheap_objects");
        yaml.put("memtable_heap_space", "48MiB");
        yaml.put("memtable_offheap_space", "64MiB");
        properties.add("-ea");
        properties.addAll(List.of(System.getProperty("node.options", "").strip().split(" +")));
        properties.removeIf(String::isEmpty);
        esker(Map.of());
        memtable("trie", "TrieMemtable", Map.of());
    }

    private final Map<String, String> memtables = new LinkedHashMap<>();

    /** Adds a memtable configuration. */
    Node memtable(String name, String type, Map<String, String> options) {
        StringBuilder text =
                new StringBuilder("    " + name + ":\n      class_name: " + type + "\n");
        if (!options.isEmpty()) {
            text.append("      parameters:\n");
            options.forEach((key, value) -> text.append("        " + key + ": " + value + "\n"));
        }
        memtables.put(name, text.toString());
        return this;
    }

    /** Puts Esker's log into a pool of emulated persistent memory, which {@link #close} deletes. */
    Node onPool(String size) {
        String name = "esker-test-" + ProcessHandle.current().pid() + "-" + dir.getFileName();
        pool = new Pool(EMULATED.resolve(name), true);
        deletePool();
        parameters =
                Map.of("pool", pool().toString(), "pool_size", size, "pool_emulated", "true");
        return esker(parameters);
    }

    /** Adds the configurations of Esker: {@code esker} and {@code primary}. */
    private Node esker(Map<String, String> options) {
        Map<String, String> primary = new LinkedHashMap<>(options);
        primary.put("primary", "true");
        return memtable("esker", MEMTABLE, options).memtable("primary", MEMTABLE, primary);
    }

    /** Returns the parameters of Esker's memtable. */
    Map<String, String> parameters() {
        return parameters;
    }

    /** Returns the file of the pool that {@link #onPool} made. */
    Path pool() {
        return pool.file();
    }

    /** Returns the settings to open the database of this node with, when it does not run. */
    Settings settings() {
        return pool == null ? new Settings() : new Settings().pool(pool);
    }

    /** Copies the database of this node, which does not run, to {@code to}. */
    void save(Path to) throws IOException {
        copy(dir.resolve("esker"), to);
        if (pool != null) {
            Files.copy(pool(), to.resolve("pool"));
        }
    }

    /** Replaces the database of this node, which does not run, by a copy. */
    void restore(Path from) throws IOException {
        delete(dir.resolve("esker"));
        copy(from, dir.resolve("esker"));
        if (pool != null) {
            Files.move(
                    dir.resolve("esker/pool"), pool(), StandardCopyOption.REPLACE_EXISTING);
        }
    }

    private static void copy(Path from, Path to) throws IOException {
        Files.createDirectories(to);
        try (Stream<Path> files = Files.list(from)) {
            for (Path file : files.toList()) {
                Files.copy(file, to.resolve(file.getFileName()));
            }
        }
    }

    private void deletePool() {
        if (pool != null) {
            try {
                Files.deleteIfExists(pool());
            } catch (IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        }
    }

    /** Changes a line of {@code cassandra.yaml}; {@code null} removes it. */
    Node with(String name, String value) {
        yaml.put(name, value);
        return this;
    }

    /** Adds an option of the virtual machine. */
    Node property(String property) {
        properties.add(property);
        return this;
    }

    Node withoutProperty(String property) {
        properties.remove(property);
        return this;
    }

    Node heap(int megabytes) {
        heapMegabytes = megabytes;
        return this;
    }

    String address() {
        return "127.0.0." + number;
    }

    Path dir() {
        return dir;
    }

    Path log() {
        return dir.resolve("node.log");
    }

    /** Starts the node and waits until it serves clients. */
    Node start() {
        startLater();
        await();
        return this;
    }

    /** Starts the node. */
    void startLater() {
        launch();
    }

    /** Waits until the node that was started serves clients. */
    void await() {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(START_SECONDS);
        while (true) {
            boolean isServing = isServing();
            // Another process may serve at the port.
            if (!process.isAlive()) {
                throw new IllegalStateException("the node stopped at its start:\n" + tail());
            }
            if (isServing) {
                return;
            }
            if (System.nanoTime() > end) {
                kill();
                throw new IllegalStateException("the node does not serve clients:\n" + tail());
            }
            pause(100);
        }
    }

    /** Starts a node that must refuse to, and returns its log. */
    String startRefused() {
        launch();
        try {
            if (!process.waitFor(START_SECONDS, TimeUnit.SECONDS)) {
                kill();
                throw new IllegalStateException("the node did not refuse to start");
            }
            return Files.readString(log());
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Starts the node and kills it after {@code millis}, even if it does not serve yet. */
    void startAndKill(long millis) {
        launch();
        pause(millis);
        kill();
    }

    private void launch() {
        synchronized (RUNNING) {
            if (isStopped) {
                throw new IllegalStateException("starting a node failed: the program ends");
            }
            if (isServing()) {
                throw new IllegalStateException(
                        "starting a node failed: another process has the port "
                                + address()
                                + ":"
                                + CQL_PORT
                                + "; end it");
            }
            begin();
            RUNNING.add(this);
        }
    }

    /** Ends all nodes, and starts no more. It runs when the program ends. */
    static void stopAll() {
        synchronized (RUNNING) {
            isStopped = true;
            List.copyOf(RUNNING).forEach(Node::close);
        }
    }

    private void begin() {
        try {
            Files.createDirectories(dir);
            Path config = dir.resolve("cassandra.yaml");
            Files.writeString(config, config());
            List<String> command = new ArrayList<>();
            command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
            command.add("-javaagent:" + jar("jamm-"));
            EXPORTS.forEach(
                    name -> command.addAll(List.of("--add-exports", name + "=ALL-UNNAMED")));
            OPENS.forEach(name -> command.addAll(List.of("--add-opens", name + "=ALL-UNNAMED")));
            command.addAll(
                    List.of(
                            "-Xms" + heapMegabytes + "m",
                            "-Xmx" + heapMegabytes + "m",
                            "-Xss512k",
                            "-XX:+UseG1GC",
                            "-XX:+ExitOnOutOfMemoryError",
                            "-Djdk.attach.allowAttachSelf=true",
                            "-Djava.io.tmpdir=" + Files.createDirectories(dir.resolve("tmp")),
                            "-Dcassandra.config=file://" + config,
                            "-Dcassandra.storagedir=" + dir,
                            "-Dcassandra.jmx.local.port=" + (JMX_PORT + number),
                            "-Dcassandra.ring_delay_ms=5000",
                            "-Dcassandra.skip_wait_for_gossip_to_settle=0",
                            "-Dcassandra.consistent.rangemovement=false",
                            "-Dcassandra-foreground=yes",
                            "-Dlogback.configurationFile=node-logback.xml"));
            command.addAll(properties);
            command.add("-cp");
            command.add(System.getProperty("java.class.path"));
            command.add("org.apache.cassandra.service.CassandraDaemon");
            process =
                    new ProcessBuilder(command)
                            .redirectErrorStream(true)
                            .redirectOutput(ProcessBuilder.Redirect.appendTo(log().toFile()))
                            .start();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static String jar(String name) {
        return Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
                .filter(path -> Path.of(path).getFileName().toString().startsWith(name))
                .findFirst()
                .orElseThrow(() -> new IllegalStateException("not on the class path: " + name));
    }

    private String config() {
        StringBuilder text = new StringBuilder();
        text.append("cluster_name: esker\n");
        text.append("num_tokens: 4\n");
        text.append("partitioner: org.apache.cassandra.dht.Murmur3Partitioner\n");
        text.append("endpoint_snitch: SimpleSnitch\n");
        text.append("listen_address: " + address() + "\nrpc_address: " + address() + "\n");
        text.append("storage_port: " + STORAGE_PORT + "\n");
        text.append("native_transport_port: " + CQL_PORT + "\n");
        text.append(
                "seed_provider:\n"
                        + "  - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n");
        text.append("    parameters:\n      - seeds: \"" + seed + ":" + STORAGE_PORT + "\"\n");
        text.append("data_file_directories:\n  - " + dir.resolve("data") + "\n");
        for (String name : List.of("commitlog", "saved_caches", "hints", "cdc_raw")) {
            text.append(name + "_directory: " + dir.resolve(name) + "\n");
        }
        text.append("commitlog_segment_size: 8MiB\ncommitlog_total_space: 256MiB\n");
        text.append("file_cache_size: 16MiB\nnetworking_cache_size: 16MiB\n");
        text.append("key_cache_size: 4MiB\ncounter_cache_size: 2MiB\n");
        yaml.forEach(
                (name, value) -> {
                    if (value != null) {
                        text.append(name + ": " + value + "\n");
                    }
                });
        text.append("memtable:\n  configurations:\n");
        memtables.values().forEach(text::append);
        return text.toString();
    }

    private boolean isServing() {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(address(), CQL_PORT), 1000);
            return true;
        } catch (IOException error) {
            return false;
        }
    }

    private String tail() {
        try {
            List<String> lines = Files.readAllLines(log());
            return String.join("\n", lines.subList(Math.max(0, lines.size() - 40), lines.size()));
        } catch (IOException error) {
            return error.toString();
        }
    }

    /** Ends the process at once, as {@code kill -9} does. */
    void kill() {
        if (process != null) {
            process.destroyForcibly();
            awaitEnd();
            synchronized (RUNNING) {
                RUNNING.remove(this);
            }
        }
    }

    private void awaitEnd() {
        try {
            process.waitFor();
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    boolean isAlive() {
        return process != null && process.isAlive();
    }

    long pid() {
        return process.pid();
    }

    /** Returns the time of processors that the node has used. */
    double cpuMicros() {
        return process.info().totalCpuDuration().orElseThrow().toNanos() / 1e3;
    }

    @Override
    public void close() {
        kill();
        deletePool();
    }

    /** Connects a client to this node alone. */
    Cluster connect() {
        return client(List.of(this));
    }

    static Cluster client(List<Node> nodes) {
        Cluster.Builder builder =
                Cluster.builder()
                        .withPort(CQL_PORT)
                        .withoutMetrics()
                        .withoutJMXReporting()
                        .withReconnectionPolicy(new ConstantReconnectionPolicy(200))
                        .withSocketOptions(new SocketOptions().setReadTimeoutMillis(60_000));
        nodes.forEach(node -> builder.addContactPoint(node.address()));
        return builder.build();
    }

    /** Returns what {@code nodetool} and JMX clients see. */
    Beans beans() {
        return new Beans(JMX_PORT + number);
    }

    /** Returns how much memory the process has: {@code Anon}, {@code File} or {@code Shmem}. */
    long residentBytes(String kind) {
        try (Stream<String> lines = Files.lines(Path.of("/proc/" + pid() + "/status"))) {
            String line = lines.filter(of -> of.startsWith("Rss" + kind + ":")).findAny().get();
            return Long.parseLong(line.replaceAll("[^0-9]", "")) << 10;
        } catch (IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    void flush(String keyspace, String... tables) {
        beans().flush(keyspace, tables);
    }

    static void pause(long millis) {
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(millis));
    }

    /** Runs one statement at a time, for tests. */
    static final class Client implements AutoCloseable {
        private final Cluster cluster;
        final Session session;

        Client(Node node) {
            cluster = node.connect();
            session = cluster.connect();
        }

        /** Returns the rows, each as the text of its values. */
        List<String> rows(String statement) {
            List<String> rows = new ArrayList<>();
            session.execute(statement)
                    .forEach(
                            row -> {
                                StringBuilder text = new StringBuilder();
                                for (int i = 0; i < row.getColumnDefinitions().size(); i++) {
                                    text.append(i == 0 ? "" : " ").append(row.getObject(i));
                                }
                                rows.add(text.toString());
                            });
            return rows;
        }

        void run(String... statements) {
            for (String statement : statements) {
                session.execute(statement);
            }
        }

        @Override
        public void close() {
            cluster.close();
        }
    }

    /** Deletes a directory. */
    static void delete(Path dir) throws IOException {
        if (!Files.exists(dir)) {
            return;
        }
        try (Stream<Path> files = Files.walk(dir)) {
            for (Path file : files.sorted(java.util.Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(file);
            }
        }
    }
}
