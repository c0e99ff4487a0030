// A RocksDB file system that tells of the files that are written, and hands each sync to whoever is
// told. Everything else goes to the file system underneath, which is the operating system's.
//
// The other side of this file is mod.rs, which declares the same structures in the same order.

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "rocksdb/env.h"
#include "rocksdb/file_system.h"

namespace {

using namespace ROCKSDB_NAMESPACE;

// Who is told. All calls may come from any thread.
struct Watcher {
  void* context;
  // A file is about to be written: what stands for it in the calls below, or null to leave it alone.
  void* (*opened)(void* context, const char* path, size_t path_bytes);
  void (*wrote)(void* file, size_t bytes);
  // Calls work(argument) once, which syncs the file.
  void (*sync)(void* file, void (*work)(void* argument), void* argument);
  void (*closed)(void* file);
  void (*dropped)(void* context);
};

class WatchedFile : public FSWritableFileOwnerWrapper {
 public:
  WatchedFile(std::unique_ptr<FSWritableFile>&& file, const Watcher& watcher, void* watched)
      : FSWritableFileOwnerWrapper(std::move(file)), watcher_(watcher), watched_(watched) {}

  ~WatchedFile() override { watcher_.closed(watched_); }

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    return Wrote(data, FSWritableFileOwnerWrapper::Append(data, options, debug));
  }

  IOStatus Append(const Slice& data, const IOOptions& options, const DataVerificationInfo& info,
                  IODebugContext* debug) override {
    return Wrote(data, FSWritableFileOwnerWrapper::Append(data, options, info, debug));
  }

  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            IODebugContext* debug) override {
    return Wrote(data,
                 FSWritableFileOwnerWrapper::PositionedAppend(data, offset, options, debug));
  }

  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options,
                            const DataVerificationInfo& info, IODebugContext* debug) override {
    return Wrote(data,
                 FSWritableFileOwnerWrapper::PositionedAppend(data, offset, options, info, debug));
  }

  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return Synced([&] { return FSWritableFileOwnerWrapper::Sync(options, debug); });
  }

  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Synced([&] { return FSWritableFileOwnerWrapper::Fsync(options, debug); });
  }

 private:
  IOStatus Wrote(const Slice& data, IOStatus status) {
    if (status.ok()) watcher_.wrote(watched_, data.size());
    return status;
  }

  template <typename Work>
  IOStatus Synced(Work work) {
    struct Call {
      Work* work;
      IOStatus status;
    } call{&work, IOStatus::OK()};
    watcher_.sync(
        watched_,
        [](void* argument) {
          auto* call = static_cast<Call*>(argument);
          call->status = (*call->work)();
        },
        &call);
    return call.status;
  }

  const Watcher& watcher_;
  void* const watched_;
};

class WatchedFileSystem : public FileSystemWrapper {
 public:
  explicit WatchedFileSystem(const Watcher& watcher)
      : FileSystemWrapper(FileSystem::Default()), watcher_(watcher) {}

  ~WatchedFileSystem() override { watcher_.dropped(watcher_.context); }

  static const char* kClassName() { return "EskerWatchedFileSystem"; }
  const char* Name() const override { return kClassName(); }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* file, IODebugContext* debug) override {
    return Opened(path, file, target()->NewWritableFile(path, options, file, debug));
  }

  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options,
                              std::unique_ptr<FSWritableFile>* file,
                              IODebugContext* debug) override {
    return Opened(path, file, target()->ReopenWritableFile(path, options, file, debug));
  }

  IOStatus ReuseWritableFile(const std::string& path, const std::string& old_path,
                             const FileOptions& options, std::unique_ptr<FSWritableFile>* file,
                             IODebugContext* debug) override {
    return Opened(path, file, target()->ReuseWritableFile(path, old_path, options, file, debug));
  }

 private:
  IOStatus Opened(const std::string& path, std::unique_ptr<FSWritableFile>* file, IOStatus status) {
    if (!status.ok()) return status;
    void* watched = watcher_.opened(watcher_.context, path.data(), path.size());
    if (watched != nullptr) {
      *file = std::make_unique<WatchedFile>(std::move(*file), watcher_, watched);
    }
    return status;
  }

  const Watcher watcher_;
};

}  // namespace

// As db/c.cc of RocksDB 11 defines it, which no header does: what its C interface, and the crate that
// binds it, have for an Env. rocksdb_env_destroy deletes both it and the Env.
struct rocksdb_env_t {
  Env* rep;
  bool is_default;
};

extern "C" rocksdb_env_t* esker_peers_watched_env(const Watcher* watcher) {
  auto file_system = std::make_shared<WatchedFileSystem>(*watcher);
  return new rocksdb_env_t{NewCompositeEnv(file_system).release(), false};
}
