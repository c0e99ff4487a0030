// Esker for C++17: handles that free themselves, and exceptions. A thin layer over esker.h, whose rules
// of threads hold here, too.
//
// Keys and values are std::string_view going in. A read returns std::optional<std::string>. A cursor
// lends std::string_view that are valid until it moves. Every failure throws esker::Error.
#ifndef ESKER_HPP
#define ESKER_HPP

#include "esker.h"

#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace esker {

// A failure: its number, and its text by what().
class Error : public std::runtime_error {
public:
    Error(esker_status status, const std::string &text) : std::runtime_error(text), status_(status) {}
    esker_status status() const noexcept { return status_; }
    // Whether the same transaction may succeed if it runs again.
    bool is_transient() const noexcept { return esker_is_transient(status_); }

private:
    esker_status status_;
};

namespace detail {

// The bytes of a view, never NULL: an empty key is not "no bound".
inline const std::uint8_t *data(std::string_view bytes) {
    static const char nothing = 0;
    return reinterpret_cast<const std::uint8_t *>(bytes.data() != nullptr ? bytes.data() : &nothing);
}

// Calls `function` with an error as the last argument. Throws, unless it returns ESKER_OK or
// ESKER_NOT_FOUND, and returns whether it was ESKER_OK.
template <typename Function, typename... Arguments>
bool call(Function function, Arguments... arguments) {
    esker_error *error = nullptr;
    const esker_status status = function(arguments..., &error);
    const std::unique_ptr<esker_error, void (*)(esker_error *)> owned(error, esker_error_free);
    if (status == ESKER_OK || status == ESKER_NOT_FOUND) return status == ESKER_OK;
    throw Error(status, esker_error_text(error));
}

template <typename T, void (*Free)(T *)> struct Freed {
    void operator()(T *handle) const { Free(handle); }
};

template <typename T, void (*Free)(T *)> using Handle = std::unique_ptr<T, Freed<T, Free>>;

// Bytes that a call gave, as a string.
class Bytes {
public:
    Bytes() = default;
    Bytes(const Bytes &) = delete;
    Bytes &operator=(const Bytes &) = delete;
    ~Bytes() { esker_bytes_free(&bytes_); }
    esker_bytes *out() { return &bytes_; }
    bool is_nothing() const { return bytes_.data == nullptr; }
    std::string string() const { return {reinterpret_cast<const char *>(bytes_.data), bytes_.len}; }

private:
    esker_bytes bytes_{};
};

// The next bytes of a stream, for esker_put_reader. No exception may cross the library.
inline std::ptrdiff_t read_stream(void *stream, std::uint8_t *buffer, std::size_t capacity) {
    try {
        // Below the stream, whose state at the end may be an exception that the program asked for.
        std::streambuf *from = static_cast<std::istream *>(stream)->rdbuf();
        if (from == nullptr) return -1;
        return from->sgetn(reinterpret_cast<char *>(buffer),
                           static_cast<std::streamsize>(capacity));
    } catch (...) {
        return -1;
    }
}

} // namespace detail

// An entry that a cursor lends: valid until the cursor moves.
struct Entry {
    std::string_view key;
    std::string_view value;
};

// A position in a range of entries.
class Cursor {
public:
    explicit Cursor(esker_cursor *cursor) : cursor_(cursor) {}

    // Each move returns whether there is an entry.
    bool first() { return detail::call(esker_cursor_first, cursor_.get()); }
    bool last() { return detail::call(esker_cursor_last, cursor_.get()); }
    bool next() { return detail::call(esker_cursor_next, cursor_.get()); }
    bool prev() { return detail::call(esker_cursor_prev, cursor_.get()); }
    bool seek(std::string_view key) {
        return detail::call(esker_cursor_seek, cursor_.get(), detail::data(key), key.size());
    }
    bool seek_back(std::string_view key) {
        return detail::call(esker_cursor_seek_back, cursor_.get(), detail::data(key), key.size());
    }

    // The current entry, without a copy.
    std::optional<Entry> entry() const {
        const std::uint8_t *key = nullptr, *value = nullptr;
        std::size_t key_len = 0, value_len = 0;
        if (!detail::call(esker_cursor_entry, cursor_.get(), &key, &key_len, &value, &value_len))
            return std::nullopt;
        return Entry{{reinterpret_cast<const char *>(key), key_len},
                     {reinterpret_cast<const char *>(value), value_len}};
    }

    // for (auto [key, value] : cursor): all entries, in order of their keys.
    class Iterator {
    public:
        explicit Iterator(Cursor *cursor) : cursor_(cursor) {}
        Entry operator*() const { return *cursor_->entry(); }
        Iterator &operator++() {
            if (!cursor_->next()) cursor_ = nullptr;
            return *this;
        }
        bool operator!=(const Iterator &other) const { return cursor_ != other.cursor_; }

    private:
        Cursor *cursor_;
    };
    Iterator begin() { return Iterator(first() ? this : nullptr); }
    Iterator end() { return Iterator(nullptr); }

private:
    detail::Handle<esker_cursor, esker_cursor_free> cursor_;
};

// A consistent view of all keyspaces.
class Snapshot {
public:
    explicit Snapshot(esker_snapshot *snapshot) : snapshot_(snapshot) {}
    const esker_snapshot *get() const { return snapshot_.get(); }

private:
    detail::Handle<esker_snapshot, esker_snapshot_free> snapshot_;
};

// A value that is read a part at a time.
class ValueReader {
public:
    explicit ValueReader(esker_value_reader *reader) : reader_(reader) {}
    std::uint64_t size() const { return esker_value_reader_len(reader_.get()); }
    // Reads the next bytes, and returns their number: `capacity`, or fewer at the end.
    std::size_t read(char *buffer, std::size_t capacity) {
        std::size_t count = 0;
        detail::call(esker_value_reader_read, reader_.get(),
                     reinterpret_cast<std::uint8_t *>(buffer), capacity, &count);
        return count;
    }
    void seek(std::uint64_t offset) {
        detail::call(esker_value_reader_seek, reader_.get(), offset);
    }

private:
    detail::Handle<esker_value_reader, esker_value_reader_free> reader_;
};

// A keyspace of an open database.
class Keyspace {
public:
    explicit Keyspace(esker_keyspace *keyspace) : keyspace_(keyspace) {}
    const esker_keyspace *get() const { return keyspace_.get(); }

    std::optional<std::string> get(std::string_view key) const {
        detail::Bytes value;
        if (!detail::call(esker_get, get(), detail::data(key), key.size(), value.out()))
            return std::nullopt;
        return value.string();
    }
    std::optional<std::string> get(std::string_view key, const Snapshot &snapshot) const {
        detail::Bytes value;
        if (!detail::call(esker_snapshot_get, snapshot.get(), get(), detail::data(key), key.size(),
                          value.out()))
            return std::nullopt;
        return value.string();
    }
    // The values of several keys, all at one point in time: now, or that of the snapshot.
    std::vector<std::optional<std::string>>
    multi_get(const std::vector<std::string_view> &keys, const Snapshot *snapshot = nullptr) const {
        std::vector<const std::uint8_t *> starts;
        std::vector<std::size_t> lengths;
        for (std::string_view key : keys) {
            starts.push_back(detail::data(key));
            lengths.push_back(key.size());
        }
        std::vector<esker_bytes> found(keys.size());
        // Frees what the call gives. Nothing is allocated in between.
        std::vector<detail::Bytes> owned(keys.size());
        if (snapshot == nullptr)
            detail::call(esker_multi_get, get(), starts.data(), lengths.data(), keys.size(),
                         found.data());
        else
            detail::call(esker_snapshot_multi_get, snapshot->get(), get(), starts.data(),
                         lengths.data(), keys.size(), found.data());
        for (std::size_t i = 0; i < found.size(); i++)
            *owned[i].out() = found[i];
        std::vector<std::optional<std::string>> values;
        for (const detail::Bytes &bytes : owned)
            values.push_back(bytes.is_nothing() ? std::nullopt : std::optional(bytes.string()));
        return values;
    }
    // Counts the keys, by a scan. approximate_size() estimates their number without one.
    std::uint64_t count() const {
        std::uint64_t count = 0;
        detail::call(esker_count, get(), nullptr, 0, nullptr, 0, &count);
        return count;
    }
    std::uint64_t approximate_size() const {
        std::uint64_t size = 0;
        detail::call(esker_approximate_len, get(), &size);
        return size;
    }
    // Sets `key` to all that `from` has, of any size, and returns how many bytes that is.
    std::uint64_t put(std::string_view key, std::istream &from) const {
        std::uint64_t len = 0;
        detail::call(esker_put_reader, get(), detail::data(key), key.size(), detail::read_stream,
                     static_cast<void *>(&from), &len);
        return len;
    }
    std::optional<ValueReader> reader(std::string_view key) const {
        esker_value_reader *reader = nullptr;
        if (!detail::call(esker_get_reader, get(), detail::data(key), key.size(), &reader))
            return std::nullopt;
        return ValueReader(reader);
    }
    std::optional<ValueReader> reader(std::string_view key, const Snapshot &snapshot) const {
        esker_value_reader *reader = nullptr;
        if (!detail::call(esker_snapshot_get_reader, snapshot.get(), get(), detail::data(key),
                          key.size(), &reader))
            return std::nullopt;
        return ValueReader(reader);
    }
    bool contains(std::string_view key) const {
        return detail::call(esker_contains, get(), detail::data(key), key.size());
    }
    void put(std::string_view key, std::string_view value) const {
        detail::call(esker_put, get(), detail::data(key), key.size(), detail::data(value),
                     value.size());
    }
    void merge(std::string_view key, std::string_view operand) const {
        detail::call(esker_merge, get(), detail::data(key), key.size(), detail::data(operand),
                     operand.size());
    }
    void erase(std::string_view key) const {
        detail::call(esker_delete, get(), detail::data(key), key.size());
    }
    // All keys from `start` on, up to and without `end`.
    void erase(std::string_view start, std::string_view end) const {
        detail::call(esker_delete_range, get(), detail::data(start), start.size(),
                     detail::data(end), end.size());
    }

    // All entries, or those whose keys start with `prefix`; at a new snapshot, or at the given one.
    Cursor scan(std::string_view prefix = {}, const Snapshot *snapshot = nullptr) const {
        esker_cursor *cursor = nullptr;
        detail::call(esker_cursor_prefix, get(), snapshot != nullptr ? snapshot->get() : nullptr,
                     detail::data(prefix), prefix.size(), &cursor);
        return Cursor(cursor);
    }

private:
    detail::Handle<esker_keyspace, esker_keyspace_free> keyspace_;
};

// Writes that are applied together.
class Batch {
public:
    Batch() {
        esker_batch *batch = nullptr;
        detail::call(esker_batch_new, &batch);
        batch_.reset(batch);
    }
    const esker_batch *get() const { return batch_.get(); }

    Batch &put(const Keyspace &keyspace, std::string_view key, std::string_view value) {
        detail::call(esker_batch_put, batch_.get(), keyspace.get(), detail::data(key), key.size(),
                     detail::data(value), value.size());
        return *this;
    }
    Batch &erase(const Keyspace &keyspace, std::string_view key) {
        detail::call(esker_batch_delete, batch_.get(), keyspace.get(), detail::data(key),
                     key.size());
        return *this;
    }
    Batch &sync(bool is_durable = true) {
        detail::call(esker_batch_set_sync, batch_.get(), is_durable);
        return *this;
    }

private:
    detail::Handle<esker_batch, esker_batch_free> batch_;
};

// Reads and writes that commit together. It is rolled back unless it is committed.
class Transaction {
public:
    explicit Transaction(esker_transaction *transaction) : transaction_(transaction) {}

    std::optional<std::string> get(const Keyspace &keyspace, std::string_view key) const {
        return read(esker_transaction_get, keyspace, key);
    }
    std::optional<std::string> get_for_update(const Keyspace &keyspace, std::string_view key) const {
        return read(esker_transaction_get_for_update, keyspace, key);
    }
    void put(const Keyspace &keyspace, std::string_view key, std::string_view value) const {
        detail::call(esker_transaction_put, transaction_.get(), keyspace.get(), detail::data(key),
                     key.size(), detail::data(value), value.size());
    }
    void erase(const Keyspace &keyspace, std::string_view key) const {
        detail::call(esker_transaction_delete, transaction_.get(), keyspace.get(),
                     detail::data(key), key.size());
    }
    Cursor scan(const Keyspace &keyspace, std::string_view prefix = {}) const {
        esker_cursor *cursor = nullptr;
        detail::call(esker_transaction_cursor_prefix, transaction_.get(), keyspace.get(),
                     detail::data(prefix), prefix.size(), &cursor);
        return Cursor(cursor);
    }
    void commit() const { detail::call(esker_commit, transaction_.get()); }
    // The first phase of a two-phase commit: see Db::prepared().
    void prepare(std::string_view id) const {
        detail::call(esker_prepare, transaction_.get(), detail::data(id), id.size());
    }
    void rollback() const { detail::call(esker_rollback, transaction_.get()); }

private:
    template <typename Function>
    std::optional<std::string> read(Function function, const Keyspace &keyspace,
                                    std::string_view key) const {
        detail::Bytes value;
        if (!detail::call(function, transaction_.get(), keyspace.get(), detail::data(key),
                          key.size(), value.out()))
            return std::nullopt;
        return value.string();
    }

    detail::Handle<esker_transaction, esker_transaction_free> transaction_;
};

// Settings of a database, by their names: see esker_settings_set.
class Settings {
public:
    Settings() {
        esker_settings *settings = nullptr;
        detail::call(esker_settings_new, &settings);
        settings_.reset(settings);
    }
    const esker_settings *get() const { return settings_.get(); }
    Settings &set(const std::string &name, const std::string &value) {
        detail::call(esker_settings_set, settings_.get(), name.c_str(), value.c_str());
        return *this;
    }

private:
    detail::Handle<esker_settings, esker_settings_free> settings_;
};

// Settings of a keyspace, by their names: see esker_keyspace_settings_set.
class KeyspaceSettings {
public:
    KeyspaceSettings() {
        esker_keyspace_settings *settings = nullptr;
        detail::call(esker_keyspace_settings_new, &settings);
        settings_.reset(settings);
    }
    const esker_keyspace_settings *get() const { return settings_.get(); }
    KeyspaceSettings &set(const std::string &name, const std::string &value) {
        detail::call(esker_keyspace_settings_set, settings_.get(), name.c_str(), value.c_str());
        return *this;
    }

private:
    detail::Handle<esker_keyspace_settings, esker_keyspace_settings_free> settings_;
};

// An open database. The destructor closes it, and ignores errors; close() reports them.
class Db {
public:
    explicit Db(const std::string &dir) : Db(dir, nullptr) {}
    Db(const std::string &dir, const Settings &settings) : Db(dir, settings.get()) {}
    void close() { detail::call(esker_close, db_.release()); }
    const esker_db *get() const { return db_.get(); }

    // The keyspace `name`, created if it is missing.
    Keyspace keyspace(const std::string &name) const { return create(name, nullptr); }
    Keyspace keyspace(const std::string &name, const KeyspaceSettings &settings) const {
        return create(name, settings.get());
    }
    void write(const Batch &batch) const { detail::call(esker_write, get(), batch.get()); }
    void sync() const { detail::call(esker_sync, get()); }
    void flush() const { detail::call(esker_flush, get()); }
    Snapshot snapshot() const {
        esker_snapshot *snapshot = nullptr;
        detail::call(esker_snapshot_new, get(), &snapshot);
        return Snapshot(snapshot);
    }
    Transaction begin(std::uint32_t flags = 0) const {
        esker_transaction *transaction = nullptr;
        detail::call(esker_begin, get(), flags, std::uint64_t{0}, &transaction);
        return Transaction(transaction);
    }

    // The ids of the transactions that are prepared and not decided.
    std::vector<std::string> prepared() const {
        esker_prepared *made = nullptr;
        detail::call(esker_prepared_new, get(), &made);
        const detail::Handle<esker_prepared, esker_prepared_free> list(made);
        std::vector<std::string> ids;
        for (std::size_t index = 0; index < esker_prepared_len(list.get()); ++index) {
            const std::uint8_t *id = nullptr;
            std::size_t len = 0;
            detail::call(esker_prepared_entry, list.get(), index, &id, &len,
                         static_cast<bool *>(nullptr));
            ids.emplace_back(reinterpret_cast<const char *>(id), len);
        }
        return ids;
    }
    void commit_prepared(std::string_view id) const {
        detail::call(esker_commit_prepared, get(), detail::data(id), id.size());
    }
    void rollback_prepared(std::string_view id) const {
        detail::call(esker_rollback_prepared, get(), detail::data(id), id.size());
    }

    // Runs `work` in a transaction and commits it; again after a conflict, at most `attempts` times.
    template <typename Work>
    void transact(Work work, std::uint32_t flags = 0, int attempts = 100) const {
        for (int attempt = 1;; ++attempt) {
            try {
                const Transaction transaction = begin(flags);
                work(transaction);
                transaction.commit();
                return;
            } catch (const Error &error) {
                if (!error.is_transient() || attempt >= attempts) throw;
            }
        }
    }

private:
    Db(const std::string &dir, const esker_settings *settings) {
        esker_db *db = nullptr;
        detail::call(esker_open, dir.c_str(), settings, &db);
        db_.reset(db);
    }
    Keyspace create(const std::string &name, const esker_keyspace_settings *settings) const {
        esker_keyspace *keyspace = nullptr;
        detail::call(esker_keyspace_create, get(), name.c_str(), settings, &keyspace);
        return Keyspace(keyspace);
    }
    static void close_quietly(esker_db *db) { esker_close(db, nullptr); }

    detail::Handle<esker_db, close_quietly> db_;
};

// Makes a database of what can be read in `dir`, and returns a report as JSON: see esker_repair.
inline std::string repair(const std::string &dir, bool gives_up_logs = false) {
    detail::Bytes report;
    detail::call(esker_repair, dir.c_str(), nullptr, gives_up_logs, report.out());
    return report.string();
}

} // namespace esker

#endif
