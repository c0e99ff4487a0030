//! `esker export`: all entries of a keyspace, or of a range, as a file that `esker import` reads back.
//!
//! TSV and CSV begin with the header `esker:key`, `esker:value`; the fields follow the escape rule of
//! [`crate::text`], so that any bytes survive. JSON Lines has `{"key": …, "value": …}` a line, with
//! `key_hex` and `value_hex` in place of what is not UTF-8.

use crate::failure::{Answer, Failure, Outcome};
use crate::form::Form;
use crate::import::Format;
use crate::interrupt::Interrupt;
use crate::output::{is_json, json_line, raw_stdout, show, tell};
use crate::place::{Place, Stretch, for_each, for_each_around};
use crate::progress::Progress;
use crate::text::escape_into;
use crate::units;
use serde_json::json;
use std::fs::{File, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Few enough writes that they cost nothing an entry.
const BUFFER_BYTES: usize = 256 << 10;

/// Write the keys and values of a keyspace to a file
///
/// `esker import` reads the file back as it is, whatever bytes the keys and values hold. The file
/// gets its name only when it is complete.
#[derive(clap::Args)]
pub struct Export {
    #[command(flatten)]
    place: Place,
    /// The file; - for standard output
    #[arg(default_value = "-")]
    file: PathBuf,
    /// The format; by default what the file's name says, and TSV for standard output
    #[arg(long)]
    format: Option<Format>,
    #[command(flatten)]
    stretch: Stretch,
    /// Skip damaged blocks, report them, and end with status 1 if there were any. No other process may
    /// have the database open
    #[arg(long)]
    skip_damaged: bool,
    #[command(flatten)]
    form: Form,
}

impl Export {
    pub fn run(self) -> Outcome {
        let to_stdout = self.file == Path::new("-");
        let format = match self.format {
            Some(format) => format,
            None if to_stdout => Format::Tsv,
            None => Format::of_file(&self.file)?,
        };
        let form = self.form;
        if form.is_value_hex() && format != Format::Jsonl {
            let what = "--value-hex: TSV and CSV have values escaped; use --format jsonl";
            return Err(Failure::Usage(what.into()));
        }
        let range = self.stretch.range(form.key())?;
        let opened = match self.skip_damaged {
            true => None,
            false => Some(self.place.open_for_reading()?),
        };
        // Of a reading around damage, what it ends with once the file is whole.
        let mut around = Ok(());
        // What goes to standard output needs no tidying up, and shows itself how far it is.
        let interrupt = if to_stdout { Ok(Interrupt::default()) } else { Interrupt::listen() };
        let interrupt =
            interrupt.map_err(|error| Failure::io("listen for", "interrupts", error))?;
        let progress = if to_stdout { Progress::hidden() } else { Progress::of_pairs() };
        let mut pairs = 0;
        let mut write = |out: &mut dyn Write, failed: &dyn Fn(std::io::Error) -> Failure| {
            let (mut line, mut is_stopped) = (header(format).to_owned(), false);
            out.write_all(line.as_bytes()).map_err(failed)?;
            let visit = |key: &[u8], value: &[u8]| {
                line.clear();
                put_line(format, form, key, value, &mut line)?;
                out.write_all(line.as_bytes()).map_err(failed)?;
                pairs += 1;
                progress.at(pairs);
                is_stopped = interrupt.is_set();
                Ok(!is_stopped)
            };
            match &opened {
                Some((db, keyspace)) => for_each(db, keyspace, range.clone(), false, visit)?,
                None => match for_each_around(&self.place, &range, visit) {
                    Err(skipped @ Failure::No(Answer::Incomplete, _)) => around = Err(skipped),
                    read => read?,
                },
            }
            if is_stopped {
                let pairs = units::counted(pairs, "pair");
                let message = format!("interrupted after {pairs}; the export is not whole");
                return Err(Failure::Interrupted(message));
            }
            out.flush().map_err(failed)
        };
        if to_stdout {
            write(&mut raw_stdout(), &Failure::from)?;
            return around;
        }
        let name = self.file.display().to_string();
        let failed = |error| Failure::io("write to", name.clone(), error);
        into_file(&self.file, |out| write(out, &failed))?;
        progress.finish();
        match is_json() {
            true => show(|| json!({ "pairs": pairs, "file": name }), String::new)?,
            false => tell(format_args!("exported {} to {name}", units::counted(pairs, "pair"))),
        }
        around
    }
}

fn header(format: Format) -> &'static str {
    match format {
        Format::Tsv => "esker:key\tesker:value\n",
        Format::Csv => "esker:key,esker:value\n",
        Format::Jsonl => "",
    }
}

/// Has `write` fill a file next to `path`, and gives it its name when it is whole and on the device.
/// What is no regular file, such as a device or a named pipe, is written directly.
fn into_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> Outcome) -> Outcome {
    let name = path.display().to_string();
    let metadata = path.metadata().ok();
    if metadata.as_ref().is_some_and(|metadata| !metadata.is_file()) {
        let file = File::options().write(true).open(path);
        let file = file.map_err(|error| Failure::io("open", &name, error))?;
        return write(&mut BufWriter::with_capacity(BUFFER_BYTES, file));
    }
    let target = behind_link(path);
    let (dir, file_name) = (parent(&target), target.file_name().unwrap_or_default());
    let mut prefix = file_name.to_owned();
    prefix.push(".");
    // As any new file has it, or as the one that is replaced.
    let permissions =
        metadata.map_or_else(|| Permissions::from_mode(0o666), |old| old.permissions());
    let partial = tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".partial")
        .permissions(permissions)
        .tempfile_in(dir)
        .map_err(|error| Failure::io("create", &name, bare(error, dir)))?;
    // If this fails, the partial file goes when it is dropped.
    write(&mut BufWriter::with_capacity(BUFFER_BYTES, partial.as_file()))?;
    partial.as_file().sync_all().map_err(|error| Failure::io("sync", &name, error))?;
    partial.persist(&target).map_err(|error| Failure::io("rename", &name, error.error))?;
    Ok(())
}

/// An error of a temporary file in `dir` without the name of that file.
fn bare(error: std::io::Error, dir: &Path) -> std::io::Error {
    // The directory says it in the system's words.
    dir.read_dir().err().unwrap_or_else(|| error.kind().into())
}

/// The file that a symbolic link leads to, there or not; a path that is no link, as it is.
fn behind_link(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.read_link()) {
        (Ok(target), _) => target,
        (Err(_), Ok(link)) => parent(path).join(link),
        (Err(_), Err(_)) => path.to_owned(),
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn put_line(format: Format, form: Form, key: &[u8], value: &[u8], line: &mut String) -> Outcome {
    match format {
        Format::Tsv => {
            escape_into(key, line);
            line.push('\t');
            escape_into(value, line);
            line.push('\n');
        }
        Format::Csv => {
            put_csv_field(key, line);
            line.push(',');
            put_csv_field(value, line);
            line.push('\n');
        }
        Format::Jsonl => line.push_str(&json_line(&form.pair(key, value))?),
    }
    Ok(())
}

fn put_csv_field(bytes: &[u8], line: &mut String) {
    let start = line.len();
    escape_into(bytes, line);
    // Spaces at an end are quoted because some readers trim them.
    let field = &line[start..];
    if field.contains([',', '"']) || field.starts_with(' ') || field.ends_with(' ') {
        let quoted = format!("\"{}\"", field.replace('"', "\"\""));
        line.replace_range(start.., &quoted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_one_pair_in_each_format() {
        for (format, expected) in [
            (Format::Tsv, "a\\tb\tc,\"d\n"),
            (Format::Csv, "a\\tb,\"c,\"\"d\"\n"),
            (Format::Jsonl, "{\"key\":\"a\\tb\",\"value\":\"c,\\\"d\"}\n"),
        ] {
            let mut line = String::new();
            put_line(format, Form::default(), b"a\tb", b"c,\"d", &mut line).unwrap();
            assert_eq!(line, expected);
        }
    }
}
