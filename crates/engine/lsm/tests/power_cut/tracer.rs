//! Runs a child of this program and lists the system calls that it makes, by ptrace.
//!
//! What the kernel was asked for is the truth: nothing that the program under test believes, or that a
//! layer of it records, comes in between.

use super::ptrace::{self, Event};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A file, a directory or whatever else a descriptor stands for, while it is open.
pub type Inode = (u64, u64);

/// A system call that has ended well.
#[derive(Debug)]
pub enum Call {
    /// A file was opened by a name in a directory, and created if it was not there.
    Open {
        parent: Inode,
        name: String,
        file: Inode,
        truncate: bool,
    },
    MakeDirectory {
        parent: Inode,
        name: String,
        made: Inode,
    },
    Write {
        file: Inode,
        offset: u64,
        bytes: Vec<u8>,
    },
    SetLength {
        file: Inode,
        bytes: u64,
    },
    /// The file is at least so long.
    Extend {
        file: Inode,
        bytes: u64,
    },
    /// A sync of a file or a directory was begun.
    SyncBegun {
        thread: i32,
        what: Inode,
    },
    /// The thread's sync has ended.
    SyncEnded {
        thread: i32,
    },
    Remove {
        parent: Inode,
        name: String,
    },
    Rename {
        from: (Inode, String),
        to: (Inode, String),
    },
    Link {
        from: (Inode, String),
        to: (Inode, String),
    },
    /// A line that the child wrote to its output.
    Said(String),
}

/// Why nothing was traced.
pub enum Refused {
    /// The kernel, or the sandbox, has no ptrace for us.
    NoPtrace(std::io::Error),
}

/// What a thread is in the middle of.
struct Entered {
    number: i64,
    arguments: [u64; 6],
    /// What was found at its entry.
    begun: Option<Begun>,
}

enum Begun {
    /// At a descriptor that is a file or a directory on a disk.
    At {
        inode: Inode,
        position: u64,
    },
    Sync,
}

struct Tracer<'a> {
    child: Child,
    ended: bool,
    process: i32,
    memory: File,
    entered: HashMap<i32, Entered>,
    report: &'a mut dyn FnMut(Call),
}

const AT_FDCWD: i32 = -100;

/// Runs `command`, which waits for a byte on its input before it begins, and reports its calls.
pub fn trace(command: &mut Command, report: &mut dyn FnMut(Call)) -> Result<(), Refused> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let process = child.id() as i32;
    let mut input = child.stdin.take().unwrap();
    // The child's output is read from its calls; a pipe that nobody empties would stop it.
    let mut output = child.stdout.take().unwrap();
    std::thread::scope(|scope| {
        let drain = scope.spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        wait_until_it_reads(process);
        let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
        let threads: Vec<i32> = threads
            .map(|thread| thread.unwrap().file_name().into_string().unwrap().parse().unwrap())
            .collect();
        for &thread in &threads {
            if let Err(refused) = ptrace::seize(thread) {
                drop(input);
                child.kill().unwrap();
                child.wait().unwrap();
                return Err(Refused::NoPtrace(refused));
            }
            ptrace::interrupt(thread).unwrap();
        }
        let memory = File::open(format!("/proc/{process}/mem")).unwrap();
        let entered = HashMap::new();
        let mut tracer = Tracer { child, ended: false, process, memory, entered, report };
        input.write_all(b"\n").unwrap();
        drop(input);
        tracer.run();
        drop(drain.join());
        Ok(())
    })
}

/// Returns once the child's main thread sleeps in a read: it has no other work then.
fn wait_until_it_reads(process: i32) {
    let read = "0 0x0 "; // `read` of descriptor 0, as the kernel shows it.
    loop {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
        let reads = tasks.into_iter().any(|task| {
            let file = task.unwrap().path().join("syscall");
            fs::read_to_string(file).is_ok_and(|call| call.starts_with(read))
        });
        if reads {
            return;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
}

impl Tracer<'_> {
    fn run(&mut self) {
        while let Some((thread, event)) = ptrace::wait() {
            let is_process = thread == self.process;
            match event {
                Event::Call => {
                    self.at_call(thread);
                    go_on(thread, 0);
                }
                Event::Stop => go_on(thread, 0),
                Event::Signal(signal) => go_on(thread, signal),
                Event::Exited(code) if is_process => {
                    self.ended = true;
                    assert_eq!(code, 0, "the child failed");
                }
                Event::Killed(signal) if is_process => {
                    self.ended = true;
                    panic!("the child died of signal {signal}");
                }
                Event::Exited(_) | Event::Killed(_) => {}
            }
        }
    }

    fn at_call(&mut self, thread: i32) {
        let Ok(registers) = ptrace::registers(thread) else {
            return;
        };
        match self.entered.remove(&thread) {
            None => {
                let arguments = [
                    registers.rdi,
                    registers.rsi,
                    registers.rdx,
                    registers.r10,
                    registers.r8,
                    registers.r9,
                ];
                let number = registers.orig_rax as i64;
                let begun = self.enter(thread, number, &arguments);
                self.entered.insert(thread, Entered { number, arguments, begun });
            }
            Some(entered) => self.leave(thread, entered, registers.rax as i64),
        }
    }

    fn enter(&mut self, thread: i32, number: i64, arguments: &[u64; 6]) -> Option<Begun> {
        let descriptor = arguments[0] as i32;
        match number {
            libc::SYS_fsync | libc::SYS_fdatasync => {
                let what = self.on_disk(descriptor)?;
                (self.report)(Call::SyncBegun { thread, what });
                Some(Begun::Sync)
            }
            libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_ftruncate | libc::SYS_fallocate => {
                let inode = self.on_disk(descriptor)?;
                Some(Begun::At { inode, position: self.position(descriptor) })
            }
            libc::SYS_mmap => {
                let (access, flags) = (arguments[2] as i32, arguments[3] as i32);
                let shared = flags & libc::MAP_SHARED != 0 && access & libc::PROT_WRITE != 0;
                let file = shared.then(|| self.on_disk(arguments[4] as i32)).flatten();
                assert!(file.is_none(), "a file is written through a mapping, which is not traced");
                None
            }
            libc::SYS_writev
            | libc::SYS_pwritev
            | libc::SYS_pwritev2
            | libc::SYS_truncate
            | libc::SYS_copy_file_range
            | libc::SYS_sendfile
            | libc::SYS_splice
            | libc::SYS_io_uring_setup
            | libc::SYS_renameat2
            | libc::SYS_openat2
            | libc::SYS_symlink
            | libc::SYS_symlinkat
                if number != libc::SYS_writev || self.on_disk(descriptor).is_some() =>
            {
                panic!("system call {number} is not known here; teach it to the tracer");
            }
            _ => None,
        }
    }

    fn leave(&mut self, thread: i32, entered: Entered, result: i64) {
        let Entered { number, arguments, begun } = entered;
        if result < 0 {
            // A sync that failed has made nothing durable; the program must not go on as if.
            return;
        }
        if let Some(call) = self.call(thread, number, &arguments, begun, result) {
            (self.report)(call);
        }
    }

    fn call(
        &self,
        thread: i32,
        number: i64,
        arguments: &[u64; 6],
        begun: Option<Begun>,
        result: i64,
    ) -> Option<Call> {
        let int = |at: usize| arguments[at] as i32;
        let call = match (number, begun) {
            (libc::SYS_write, None) if int(0) == 1 => {
                let said = self.bytes(arguments[1], result as usize);
                Call::Said(String::from_utf8_lossy(&said).into_owned())
            }
            (libc::SYS_write, Some(Begun::At { inode: file, position })) => {
                let bytes = self.bytes(arguments[1], result as usize);
                Call::Write { file, offset: position, bytes }
            }
            (libc::SYS_pwrite64, Some(Begun::At { inode: file, .. })) => {
                let bytes = self.bytes(arguments[1], result as usize);
                Call::Write { file, offset: arguments[3], bytes }
            }
            (libc::SYS_ftruncate, Some(Begun::At { inode: file, .. })) => {
                Call::SetLength { file, bytes: arguments[1] }
            }
            (libc::SYS_fallocate, Some(Begun::At { inode: file, .. })) => {
                assert_eq!(int(1), 0, "space is only ever reserved");
                Call::Extend { file, bytes: arguments[2] + arguments[3] }
            }
            (_, Some(Begun::Sync)) => Call::SyncEnded { thread },
            (libc::SYS_openat, _) => {
                let flags = int(2);
                let (parent, name) = self.place(int(0), arguments[1])?;
                let file = self.on_disk(result as i32)?;
                if flags & libc::O_DIRECTORY != 0 || name == "." {
                    return None;
                }
                Call::Open { parent, name, file, truncate: flags & libc::O_TRUNC != 0 }
            }
            (libc::SYS_mkdir, _) => self.made(AT_FDCWD, arguments[0])?,
            (libc::SYS_mkdirat, _) => self.made(int(0), arguments[1])?,
            (libc::SYS_unlink | libc::SYS_rmdir, _) => self.removed(AT_FDCWD, arguments[0])?,
            (libc::SYS_unlinkat, _) => self.removed(int(0), arguments[1])?,
            (libc::SYS_rename, _) => Call::Rename {
                from: self.place(AT_FDCWD, arguments[0])?,
                to: self.place(AT_FDCWD, arguments[1])?,
            },
            (libc::SYS_renameat, _) => Call::Rename {
                from: self.place(int(0), arguments[1])?,
                to: self.place(int(2), arguments[3])?,
            },
            (libc::SYS_link, _) => Call::Link {
                from: self.place(AT_FDCWD, arguments[0])?,
                to: self.place(AT_FDCWD, arguments[1])?,
            },
            (libc::SYS_linkat, _) => Call::Link {
                from: self.place(int(0), arguments[1])?,
                to: self.place(int(2), arguments[3])?,
            },
            _ => return None,
        };
        Some(call)
    }

    fn made(&self, directory: i32, path: u64) -> Option<Call> {
        let (parent, name) = self.place(directory, path)?;
        let made = self.inode_of(&self.absolute(directory, path))?;
        Some(Call::MakeDirectory { parent, name, made })
    }

    fn removed(&self, directory: i32, path: u64) -> Option<Call> {
        let (parent, name) = self.place(directory, path)?;
        Some(Call::Remove { parent, name })
    }

    /// The directory that a path leads to, and the last name in it.
    fn place(&self, directory: i32, path: u64) -> Option<(Inode, String)> {
        let path = self.absolute(directory, path);
        let name = match path.file_name() {
            Some(name) => name.to_str()?.to_owned(),
            None => return None,
        };
        Some((self.inode_of(path.parent()?)?, name))
    }

    /// A path by which this process reaches what the child means.
    fn absolute(&self, directory: i32, path: u64) -> PathBuf {
        let path = self.text(path);
        let start = match directory {
            AT_FDCWD => format!("/proc/{}/cwd", self.process),
            descriptor => format!("/proc/{}/fd/{descriptor}", self.process),
        };
        Path::new(&start).join(path)
    }

    fn inode_of(&self, path: &Path) -> Option<Inode> {
        fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
    }

    /// What the descriptor stands for, if that is a file or a directory.
    fn on_disk(&self, descriptor: i32) -> Option<Inode> {
        let found = fs::metadata(format!("/proc/{}/fd/{descriptor}", self.process)).ok()?;
        (found.is_file() || found.is_dir()).then(|| (found.dev(), found.ino()))
    }

    /// Where the descriptor's next write goes.
    fn position(&self, descriptor: i32) -> u64 {
        let info = fs::read_to_string(format!("/proc/{}/fdinfo/{descriptor}", self.process));
        let info = info.unwrap_or_default();
        let position = info.lines().find_map(|line| line.strip_prefix("pos:"));
        position.map_or(0, |position| position.trim().parse().unwrap())
    }

    fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read_exact_at(&mut bytes, at).unwrap();
        bytes
    }

    /// A text that ends in a zero.
    fn text(&self, at: u64) -> String {
        let mut text = Vec::new();
        // Not beyond the page's end, behind which nothing may be mapped.
        let mut at = at;
        loop {
            let part = self.bytes(at, 4096 - (at % 4096) as usize);
            match part.iter().position(|&byte| byte == 0) {
                Some(end) => {
                    text.extend_from_slice(&part[..end]);
                    return String::from_utf8_lossy(&text).into_owned();
                }
                None => text.extend_from_slice(&part),
            }
            at += part.len() as u64;
        }
    }
}

impl Drop for Tracer<'_> {
    /// A test that failed must not leave the child stopped, and its output open.
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.child.kill();
        }
    }
}

fn go_on(thread: i32, signal: i32) {
    match ptrace::go_on(thread, signal) {
        // It was killed meanwhile, and says so to the next wait.
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => panic!("continue: {error}"),
        _ => {}
    }
}
