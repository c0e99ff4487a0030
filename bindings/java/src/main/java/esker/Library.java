package esker;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Locale;

/** Finds the native library: in the file that the property {@code esker.library} names, or in the jar. */
final class Library {
    private Library() {}

    static void load() {
        String given = System.getProperty("esker.library");
        if (given != null) {
            System.load(Path.of(given).toAbsolutePath().toString());
            return;
        }
        String name = "/native/" + platform() + "/" + System.mapLibraryName("esker_java");
        try (InputStream in = Library.class.getResourceAsStream(name)) {
            if (in == null) {
                throw new UnsatisfiedLinkError(
                        "the jar has no native library for "
                                + platform()
                                + "; build it there, and name it with -Desker.library=FILE");
            }
            Path file = Files.createTempFile("esker", System.mapLibraryName(""));
            try {
                Files.copy(in, file, StandardCopyOption.REPLACE_EXISTING);
                System.load(file.toString());
            } finally {
                // The process keeps what it has loaded.
                Files.deleteIfExists(file);
            }
        } catch (IOException error) {
            throw new UncheckedIOException("the native library cannot be unpacked", error);
        }
    }

    /** Such as {@code linux-x86_64}. */
    static String platform() {
        String system = System.getProperty("os.name").toLowerCase(Locale.ROOT).split(" ")[0];
        String processor = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        return system + "-" + (processor.equals("amd64") ? "x86_64" : processor);
    }
}
