//! The examples in C and C++ compile without a warning, run, and print what they should. The address
//! sanitizer and the sanitizer of undefined behavior watch them, where the compiler has them.

// The bindings depend on the façade alone, which does not export what tests share.
#[path = "../../../crates/engine/base/src/skipped.rs"]
mod skipped;

use skipped::skipped;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SANITIZE: &str = "-fsanitize=address,undefined";

const C: [(&str, &str); 5] = [
    (
        "quick_start",
        "ada: analyst\nbob: not found\na database has no setting \"background_write_rat\"; did you \
         mean \"background_write_rate\"?\n",
    ),
    ("batch", "2 writes\nanalyst/ada: there\n"),
    ("scan_backwards", "grace\ngordon\n"),
    ("transaction", "ada: 70\nbob: 30\n"),
    ("stream", "18000000 bytes\n2000000 lines\nthe last is 01999999\n"),
];

const TOUR: &str = "analyst\n01\ngordon: engineer\ngrace: admiral\ngrace\ngordon\nlinus: maintainer\n\
                    ab\ncountess, and bob: 0\nbefore: analyst, of 7 bytes\n2 keys\n3000000 bytes, to xyz\norder-7\nkept\n\
                    1\n1\nthe database is closed\n";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The library `name`, which is built with this test and next to it.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.with_file_name(name);
    assert!(path.is_file(), "{} is missing: `cargo test -p esker-c` builds it", path.display());
    path
}

/// The compiler for a language, and whether it has the sanitizers. `None` if there is none.
struct Compiler {
    command: cc::Tool,
    sanitizes: bool,
    leaks: bool,
}

impl Compiler {
    fn of(is_cpp: bool, work: &Path) -> Option<Compiler> {
        let host = env!("HOST");
        let tool = cc::Build::new()
            .cpp(is_cpp)
            .cargo_metadata(false)
            .opt_level(0)
            .host(host)
            .target(host)
            .out_dir(work)
            .try_get_compiler()
            .ok()?;
        let mut compiler = Compiler { command: tool, sanitizes: true, leaks: true };
        let probe = work.join(if is_cpp { "probe.cpp" } else { "probe.c" });
        std::fs::write(&probe, "int main(void) { return 0; }\n").unwrap();
        let program = work.join("probe");
        let runs = |compiler: &Compiler| {
            let built = compiler.build(&probe, &[], &program);
            built.is_ok_and(|it| it.status.success())
                && compiler.run(&program, &[]).is_ok_and(|it| it.status.success())
        };
        // Leaks are not found where a program may not trace itself, such as below a debugger.
        for (sanitizes, leaks) in [(true, true), (true, false), (false, false)] {
            (compiler.sanitizes, compiler.leaks) = (sanitizes, leaks);
            if runs(&compiler) {
                return Some(compiler);
            }
        }
        None
    }

    fn build(&self, source: &Path, link: &[&str], program: &Path) -> std::io::Result<Output> {
        let is_cpp = source.extension().is_some_and(|it| it == "cpp");
        let mut command = Command::new(self.command.path());
        command.arg(if is_cpp { "-std=c++17" } else { "-std=c11" });
        command.args(["-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
        if self.sanitizes {
            command.args([SANITIZE, "-fno-sanitize-recover=all"]);
        }
        command.arg("-I").arg(folder().join("include")).arg(source);
        command.args(link).arg("-o").arg(program).output()
    }

    fn run(&self, program: &Path, arguments: &[&Path]) -> std::io::Result<Output> {
        let leaks = if self.leaks { "detect_leaks=1" } else { "detect_leaks=0" };
        Command::new(program).args(arguments).env("ASAN_OPTIONS", leaks).output()
    }
}

/// Compiles, links and runs an example.
fn prints(compiler: &Compiler, example: &str, link: &[&str], work: &Path, expected: &str) {
    let program = work.join(format!("{example}.program"));
    let source = folder().join("examples").join(example);
    let built = compiler.build(&source, link, &program).unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{example}: {}", said);
    // Twice: the second time the database is there.
    for _ in 0..2 {
        let ran = compiler.run(&program, &[&work.join(format!("{example}.db"))]).unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{example}: {}: {said}", ran.status);
        assert_eq!(String::from_utf8_lossy(&ran.stdout), expected, "{example}");
    }
}

fn compiler(is_cpp: bool, work: &Path) -> Option<Compiler> {
    let language = if is_cpp { "C++" } else { "C" };
    let compiler = Compiler::of(is_cpp, work);
    match &compiler {
        None => skipped(&format!("the examples in {language}"), "install a compiler, such as g++"),
        Some(compiler) if !compiler.sanitizes => {
            skipped(&format!("the sanitizers for {language}"), "install libasan and libubsan");
        }
        Some(compiler) if !compiler.leaks => {
            skipped(&format!("the search for leaks in {language}"), "run where ptrace is allowed");
        }
        Some(_) => {}
    }
    compiler
}

const SYSTEM: [&str; 5] = ["-lpthread", "-lm", "-ldl", "-lrt", "-lgcc_s"];

#[test]
fn the_examples_run_with_the_static_library() {
    let work = tempfile::tempdir().unwrap();
    let library = built("libesker_c.a").into_os_string().into_string().unwrap();
    let link: Vec<&str> = [&library[..]].into_iter().chain(SYSTEM).collect();
    if let Some(compiler) = compiler(false, work.path()) {
        for (example, expected) in C {
            prints(&compiler, &format!("{example}.c"), &link, work.path(), expected);
        }
    }
    if let Some(compiler) = compiler(true, work.path()) {
        prints(&compiler, "tour.cpp", &link, work.path(), TOUR);
    }
}

/// As `install` puts it: programs ask for `libesker.so.0`.
#[test]
fn an_example_runs_with_the_installed_libraries() {
    let work = tempfile::tempdir().unwrap();
    let prefix = work.path().join("prefix");
    let libraries = built("libesker_c.so");
    let installed = Command::new(folder().join("install"))
        .args([&prefix, libraries.parent().unwrap()])
        .output()
        .unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let pc = std::fs::read_to_string(prefix.join("lib/pkgconfig/libesker.pc")).unwrap();
    assert!(pc.contains(&format!("Version: {}\n", env!("CARGO_PKG_VERSION"))), "{pc}");
    assert!(!pc.contains('@'), "{pc}");
    for file in ["include/esker.h", "include/esker.hpp", "lib/libesker.a", "lib/libesker.so"] {
        assert!(prefix.join(file).is_file(), "{file}");
    }
    let Some(compiler) = compiler(false, work.path()) else { return };
    let lib = prefix.join("lib").into_os_string().into_string().unwrap();
    let (search, at_run_time) = (format!("-L{lib}"), format!("-Wl,-rpath,{lib}"));
    let link = [&search[..], "-lesker", &at_run_time];
    let (example, expected) = C[0];
    prints(&compiler, &format!("{example}.c"), &link, work.path(), expected);
}
