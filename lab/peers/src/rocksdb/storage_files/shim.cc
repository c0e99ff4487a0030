// A RocksDB file system whose files lie in a store of named files behind a table of functions. There is one directory;
// all paths end in a name in it.
//
// The other side of this file is mod.rs, which declares the same structures in the same order.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rocksdb/env.h"
#include "rocksdb/file_system.h"

namespace {

using namespace ROCKSDB_NAMESPACE;

// How a call ended.
struct Outcome {
  int32_t code;  // 0: well, 1: no such file, 2: it failed
  char message[252];
};

struct Name {
  const char* bytes;
  size_t length;
};

// All calls may come from any thread; those on one writer come one at a time.
struct Store {
  void* context;
  void* (*open)(void* context, Name name, Outcome* outcome);
  uint64_t (*length)(void* reader, Outcome* outcome);
  void (*read)(void* reader, uint64_t offset, char* out, size_t bytes, Outcome* outcome);
  void (*close_reader)(void* reader);
  void* (*create)(void* context, Name name, Outcome* outcome);
  // The file `old` under another name, to be written over if it can be, or a new one.
  void* (*reuse)(void* context, Name name, Name old, Outcome* outcome);
  void (*append)(void* writer, const char* bytes, size_t length, Outcome* outcome);
  void (*sync)(void* writer, Outcome* outcome);
  void (*close_writer)(void* writer);
  void (*list)(void* context, void* names, void (*add)(void* names, const char*, size_t),
               Outcome* outcome);
  void (*remove)(void* context, Name name, Outcome* outcome);
  void (*rename)(void* context, Name from, Name to, Outcome* outcome);
  void (*sync_names)(void* context, Outcome* outcome);
  void* (*lock)(void* context, Outcome* outcome);
  void (*unlock)(void* lock);
  void (*dropped)(void* context);
};

IOStatus StatusOf(const Outcome& outcome, const std::string& path) {
  if (outcome.code == 0) return IOStatus::OK();
  const std::string message(outcome.message);
  return outcome.code == 1 ? IOStatus::PathNotFound(path, message)
                           : IOStatus::IOError(path, message);
}

Name NameOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const size_t start = slash == std::string::npos ? 0 : slash + 1;
  return Name{path.data() + start, path.size() - start};
}

class Reader : public FSRandomAccessFile {
 public:
  Reader(const Store& store, void* reader, uint64_t length, std::string path)
      : store_(store), reader_(reader), length_(length), path_(std::move(path)) {}
  ~Reader() override { store_.close_reader(reader_); }

  IOStatus Read(uint64_t offset, size_t bytes, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    const uint64_t there = offset < length_ ? length_ - offset : 0;
    if (bytes > there) bytes = static_cast<size_t>(there);
    Outcome outcome{};
    store_.read(reader_, offset, scratch, bytes, &outcome);
    *result = Slice(scratch, outcome.code == 0 ? bytes : 0);
    return StatusOf(outcome, path_);
  }

  IOStatus GetFileSize(uint64_t* size) override {
    *size = length_;
    return IOStatus::OK();
  }

 private:
  const Store& store_;
  void* const reader_;
  const uint64_t length_;
  const std::string path_;
};

class SequentialReader : public FSSequentialFile {
 public:
  explicit SequentialReader(std::unique_ptr<FSRandomAccessFile>&& file) : file_(std::move(file)) {}

  IOStatus Read(size_t bytes, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* debug) override {
    IOStatus status = file_->Read(at_, bytes, options, result, scratch, debug);
    if (status.ok()) at_ += result->size();
    return status;
  }

  IOStatus Skip(uint64_t bytes) override {
    at_ += bytes;
    return IOStatus::OK();
  }

 private:
  std::unique_ptr<FSRandomAccessFile> file_;
  uint64_t at_ = 0;
};

class Writer : public FSWritableFile {
 public:
  Writer(const Store& store, void* writer, std::string path)
      : store_(store), writer_(writer), path_(std::move(path)) {}
  ~Writer() override {
    if (writer_ != nullptr) store_.close_writer(writer_);
  }

  using FSWritableFile::Append;
  using FSWritableFile::PositionedAppend;

  IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override {
    Outcome outcome{};
    store_.append(writer_, data.data(), data.size(), &outcome);
    if (outcome.code == 0) length_ += data.size();
    is_synced_ = false;
    return StatusOf(outcome, path_);
  }

  IOStatus Append(const Slice& data, const IOOptions& options, const DataVerificationInfo&,
                  IODebugContext* debug) override {
    return Append(data, options, debug);
  }

  // As a descriptor's: what was appended is readable when the file is closed.
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = is_synced_ ? IOStatus::OK() : Sync(options, debug);
    store_.close_writer(writer_);
    writer_ = nullptr;
    return status;
  }

  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    Outcome outcome{};
    store_.sync(writer_, &outcome);
    is_synced_ = outcome.code == 0;
    return StatusOf(outcome, path_);
  }

  IOStatus Truncate(uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }

  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override { return length_; }

 private:
  const Store& store_;
  void* writer_;
  const std::string path_;
  uint64_t length_ = 0;
  bool is_synced_ = true;
};

class Directory : public FSDirectory {
 public:
  explicit Directory(const Store& store) : store_(store) {}

  IOStatus Fsync(const IOOptions&, IODebugContext*) override {
    Outcome outcome{};
    store_.sync_names(store_.context, &outcome);
    return StatusOf(outcome, "the directory");
  }

 private:
  const Store& store_;
};

class Lock : public FileLock {
 public:
  explicit Lock(void* lock) : lock(lock) {}
  void* const lock;
};

class StoreFileSystem : public FileSystemWrapper {
 public:
  explicit StoreFileSystem(const Store& store)
      : FileSystemWrapper(FileSystem::Default()), store_(store) {}
  ~StoreFileSystem() override { store_.dropped(store_.context); }

  static const char* kClassName() { return "EskerStoreFileSystem"; }
  const char* Name() const override { return kClassName(); }

  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions&,
                               std::unique_ptr<FSRandomAccessFile>* file,
                               IODebugContext*) override {
    Outcome outcome{};
    void* reader = store_.open(store_.context, NameOf(path), &outcome);
    if (outcome.code != 0) return StatusOf(outcome, path);
    const uint64_t length = store_.length(reader, &outcome);
    *file = std::make_unique<Reader>(store_, reader, length, path);
    return StatusOf(outcome, path);
  }

  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options,
                             std::unique_ptr<FSSequentialFile>* file,
                             IODebugContext* debug) override {
    std::unique_ptr<FSRandomAccessFile> reader;
    IOStatus status = NewRandomAccessFile(path, options, &reader, debug);
    if (status.ok()) *file = std::make_unique<SequentialReader>(std::move(reader));
    return status;
  }

  IOStatus NewWritableFile(const std::string& path, const FileOptions&,
                           std::unique_ptr<FSWritableFile>* file, IODebugContext*) override {
    Outcome outcome{};
    // A name that is taken loses its file, as with the system's.
    store_.remove(store_.context, NameOf(path), &outcome);
    if (outcome.code > 1) return StatusOf(outcome, path);
    outcome = Outcome{};
    return Created(path, store_.create(store_.context, NameOf(path), &outcome), outcome, file);
  }

  IOStatus ReopenWritableFile(const std::string& path, const FileOptions&,
                              std::unique_ptr<FSWritableFile>*, IODebugContext*) override {
    return IOStatus::NotSupported("appending to a file that was closed", path);
  }

  IOStatus ReuseWritableFile(const std::string& path, const std::string& old_path,
                             const FileOptions&, std::unique_ptr<FSWritableFile>* file,
                             IODebugContext*) override {
    Outcome outcome{};
    void* writer = store_.reuse(store_.context, NameOf(path), NameOf(old_path), &outcome);
    return Created(path, writer, outcome, file);
  }

  IOStatus NewRandomRWFile(const std::string& path, const FileOptions&,
                           std::unique_ptr<FSRandomRWFile>*, IODebugContext*) override {
    return IOStatus::NotSupported("writing at any place", path);
  }

  IOStatus NewMemoryMappedFileBuffer(const std::string& path,
                                     std::unique_ptr<MemoryMappedFileBuffer>*) override {
    return IOStatus::NotSupported("mapping", path);
  }

  IOStatus NewDirectory(const std::string&, const IOOptions&, std::unique_ptr<FSDirectory>* result,
                        IODebugContext*) override {
    *result = std::make_unique<Directory>(store_);
    return IOStatus::OK();
  }

  IOStatus FileExists(const std::string& path, const IOOptions&, IODebugContext*) override {
    uint64_t length = 0;
    IOStatus status = Length(path, &length);
    return status.IsPathNotFound() ? IOStatus::NotFound(path) : status;
  }

  IOStatus GetChildren(const std::string& path, const IOOptions&, std::vector<std::string>* names,
                       IODebugContext*) override {
    names->clear();
    Outcome outcome{};
    store_.list(
        store_.context, names,
        [](void* names, const char* name, size_t length) {
          static_cast<std::vector<std::string>*>(names)->emplace_back(name, length);
        },
        &outcome);
    return StatusOf(outcome, path);
  }

  IOStatus GetChildrenFileAttributes(const std::string& path, const IOOptions& options,
                                     std::vector<FileAttributes>* files,
                                     IODebugContext* debug) override {
    std::vector<std::string> names;
    IOStatus status = GetChildren(path, options, &names, debug);
    files->clear();
    for (const std::string& name : names) {
      uint64_t length = 0;
      if (Length(name, &length).ok()) files->push_back({name, length});
    }
    return status;
  }

  IOStatus DeleteFile(const std::string& path, const IOOptions&, IODebugContext*) override {
    Outcome outcome{};
    store_.remove(store_.context, NameOf(path), &outcome);
    return StatusOf(outcome, path);
  }

  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions&,
                      IODebugContext*) override {
    Outcome outcome{};
    store_.rename(store_.context, NameOf(from), NameOf(to), &outcome);
    return StatusOf(outcome, from);
  }

  IOStatus GetFileSize(const std::string& path, const IOOptions&, uint64_t* size,
                       IODebugContext*) override {
    return Length(path, size);
  }

  IOStatus GetFileModificationTime(const std::string&, const IOOptions&, uint64_t* time,
                                   IODebugContext*) override {
    *time = 0;
    return IOStatus::OK();
  }

  IOStatus LinkFile(const std::string& path, const std::string&, const IOOptions&,
                    IODebugContext*) override {
    return IOStatus::NotSupported("two names for a file", path);
  }

  IOStatus IsDirectory(const std::string& path, const IOOptions& options, bool* is_directory,
                       IODebugContext* debug) override {
    *is_directory = !FileExists(path, options, debug).ok();
    return IOStatus::OK();
  }

  IOStatus CreateDir(const std::string&, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }
  IOStatus CreateDirIfMissing(const std::string&, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }
  IOStatus DeleteDir(const std::string&, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }
  IOStatus GetAbsolutePath(const std::string& path, const IOOptions&, std::string* absolute,
                           IODebugContext*) override {
    *absolute = path;
    return IOStatus::OK();
  }

  IOStatus LockFile(const std::string& path, const IOOptions&, FileLock** lock,
                    IODebugContext*) override {
    Outcome outcome{};
    void* held = store_.lock(store_.context, &outcome);
    if (outcome.code == 0) *lock = new Lock(held);
    return StatusOf(outcome, path);
  }

  IOStatus UnlockFile(FileLock* lock, const IOOptions&, IODebugContext*) override {
    auto* held = static_cast<Lock*>(lock);
    store_.unlock(held->lock);
    delete held;
    return IOStatus::OK();
  }

 private:
  IOStatus Created(const std::string& path, void* writer, const Outcome& outcome,
                   std::unique_ptr<FSWritableFile>* file) {
    if (outcome.code == 0) *file = std::make_unique<Writer>(store_, writer, path);
    return StatusOf(outcome, path);
  }

  IOStatus Length(const std::string& path, uint64_t* length) {
    Outcome outcome{};
    void* reader = store_.open(store_.context, NameOf(path), &outcome);
    if (outcome.code != 0) return StatusOf(outcome, path);
    *length = store_.length(reader, &outcome);
    store_.close_reader(reader);
    return StatusOf(outcome, path);
  }

  const Store store_;
};

}  // namespace

// As in ../file_system/shim.cc.
struct rocksdb_env_t {
  Env* rep;
  bool is_default;
};

extern "C" rocksdb_env_t* esker_peers_store_env(const Store* store) {
  auto file_system = std::make_shared<StoreFileSystem>(*store);
  return new rocksdb_env_t{NewCompositeEnv(file_system).release(), false};
}
