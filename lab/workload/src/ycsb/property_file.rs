//! YCSB's own workload files, as options.
//!
//! Properties that a file does not name have YCSB's defaults where they say what the workload does
//! (`readproportion` is 0.95, `maxscanlength` 1,000), and those of the options given where they say
//! how much of it (`recordcount`, `operationcount`, `threadcount`). One differs on purpose: without
//! `writeallfields` an update writes a whole record (see [`Update`]).

use super::{KeyOrder, Lengths, Mix, Options, Requests, Scans, Update};
use crate::properties::{self, Property};
use esker_base::{Error, Result};
use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

/// What a file says.
#[derive(Clone, PartialEq, Debug)]
pub struct PropertyFile {
    /// The workload. Each of its settings makes sense by itself. Whether sizes go together
    /// [`Options::check`] reports, once those that come from elsewhere are in their place.
    pub options: Options,
    /// `target`: operations a second of all threads together, if they are to be throttled.
    pub rate: Option<f64>,
    /// `maxexecutiontime`: when the run ends, if not with its last operation.
    pub duration: Option<Duration>,
    /// Properties without effect here, to be shown.
    pub warnings: Vec<Warning>,
}

/// A property that has no effect here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// The file's name.
    pub file: String,
    /// The line that the property is on.
    pub line: usize,
    /// Its name.
    pub property: String,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Warning { file, line, property } = self;
        write!(f, "{file}, line {line}: the property {property:?} has no effect here")
    }
}

/// The workload classes that are the core workload, under its new and its old name.
const CORE_WORKLOADS: [&str; 2] =
    ["site.ycsb.workloads.CoreWorkload", "com.yahoo.ycsb.workloads.CoreWorkload"];

/// Reads `text`, the content of the file called `file`. `base` gives what a file may leave out.
pub fn parse(text: &str, file: &str, base: &Options) -> Result<PropertyFile> {
    let mut source = Source::new(text, file)?;
    source.check_class()?;
    let options = Options {
        records: source.or("recordcount", base.records)?,
        operations: source.or("operationcount", base.operations)?,
        threads: source.or("threadcount", base.threads)?,
        load_start: source.or("insertstart", 0)?,
        load_count: source.get("insertcount")?,
        mix: source.mix()?,
        requests: source.requests()?,
        fields: source.or("fieldcount", 10)?,
        field_bytes: source.field_bytes()?,
        least_value_bytes: None,
        update: source.update()?,
        key_order: source.key_order()?,
        key_digits: source.or("zeropadding", 1)?,
        scans: source.scans()?,
        verify: base.verify | source.flag("dataintegrity")?.unwrap_or(false),
        seed: base.seed,
    };
    options.check_each().map_err(|error| source.located(error))?;
    let rate = source.limit("target")?;
    let duration = source.limit("maxexecutiontime")?.map(|seconds| {
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| source.invalid("maxexecutiontime", &seconds.to_string(), "it is too long"))
    });
    Ok(PropertyFile { options, rate, duration: duration.transpose()?, warnings: source.rest() })
}

/// The properties of a file. Those that are asked for are taken out; what is left has no effect.
struct Source<'a> {
    file: &'a str,
    properties: Vec<Property>,
    lines: HashMap<String, usize>,
}

impl<'a> Source<'a> {
    fn new(text: &str, file: &'a str) -> Result<Self> {
        let properties = properties::parse(text).map_err(|bad| Error::InvalidSetting {
            setting: "a property",
            value: bad.text,
            reason: format!("\\u needs four hexadecimal digits ({file}, line {})", bad.line),
        })?;
        let lines = properties.iter().map(|property| (property.key.clone(), property.line));
        Ok(Source { file, lines: lines.collect(), properties })
    }

    /// The last value of `name`, without blanks around it.
    fn text(&mut self, name: &str) -> Option<String> {
        let value = self.properties.iter().rfind(|property| property.key == name);
        let value = value.map(|property| property.value.trim().to_owned());
        self.properties.retain(|property| property.key != name);
        value
    }

    fn get<T: FromStr>(&mut self, name: &'static str) -> Result<Option<T>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(self.invalid(name, &text, "it is not a number that fits here")),
        }
    }

    fn or<T: FromStr>(&mut self, name: &'static str, default: T) -> Result<T> {
        Ok(self.get(name)?.unwrap_or(default))
    }

    fn flag(&mut self, name: &'static str) -> Result<Option<bool>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.to_ascii_lowercase().as_str() {
            "true" => Ok(Some(true)),
            "false" => Ok(Some(false)),
            _ => Err(self.invalid(name, &text, "it is true or false")),
        }
    }

    /// One of `choices`, of which the first is the default.
    fn choice<T: Copy>(&mut self, name: &'static str, choices: &[(&str, T)]) -> Result<T> {
        let Some(text) = self.text(name) else { return Ok(choices[0].1) };
        match choices.iter().find(|choice| choice.0 == text) {
            Some(choice) => Ok(choice.1),
            None => {
                let names: Vec<_> = choices.iter().map(|choice| choice.0).collect();
                let reason = format!("what there is here: {}", names.join(", "));
                Err(self.invalid(name, &text, &reason))
            }
        }
    }

    /// A number of which zero means no limit.
    fn limit(&mut self, name: &'static str) -> Result<Option<f64>> {
        match self.get::<f64>(name)? {
            Some(limit) if !(limit >= 0.0 && limit.is_finite()) => {
                Err(self.invalid(name, &limit.to_string(), "it is a number from 0 on"))
            }
            limit => Ok(limit.filter(|&limit| limit > 0.0)),
        }
    }

    fn check_class(&mut self) -> Result<()> {
        match self.text("workload") {
            Some(class) if !CORE_WORKLOADS.contains(&class.as_str()) => {
                let reason = format!("only the core workload is built in, {}", CORE_WORKLOADS[0]);
                Err(self.invalid("workload", &class, &reason))
            }
            _ => Ok(()),
        }
    }

    fn mix(&mut self) -> Result<Mix> {
        Ok(Mix {
            read: self.or("readproportion", 0.95)?,
            update: self.or("updateproportion", 0.05)?,
            insert: self.or("insertproportion", 0.0)?,
            scan: self.or("scanproportion", 0.0)?,
            read_modify_write: self.or("readmodifywriteproportion", 0.0)?,
        })
    }

    fn requests(&mut self) -> Result<Requests> {
        let name = self.text("requestdistribution").unwrap_or_else(|| "uniform".to_owned());
        let requests = name.parse().map_err(|error| self.located(error))?;
        // The parameters of the others count as known too: files carry them along.
        let hot = [self.or("hotspotdatafraction", 0.2)?, self.or("hotspotopnfraction", 0.8)?];
        let percentile = self.or("exponential.percentile", 95.0)?;
        let fraction = self.or("exponential.frac", 0.857_142_857_1)?;
        Ok(match requests {
            Requests::HotSpot { .. } => Requests::HotSpot { records: hot[0], requests: hot[1] },
            Requests::Exponential { .. } => Requests::Exponential { percentile, fraction },
            other => other,
        })
    }

    fn field_bytes(&mut self) -> Result<usize> {
        self.choice("fieldlengthdistribution", &[("constant", ())])?;
        self.or("fieldlength", 100)
    }

    fn update(&mut self) -> Result<Update> {
        // Which fields a read returns makes no difference to a store that keeps them together.
        for name in ["readallfields", "readallfieldsbyname"] {
            self.flag(name)?;
        }
        Ok(match self.flag("writeallfields")? {
            Some(false) => Update::Field,
            Some(true) | None => Update::Whole,
        })
    }

    fn key_order(&mut self) -> Result<KeyOrder> {
        let choices = [("hashed", KeyOrder::Hashed), ("ordered", KeyOrder::Ordered)];
        self.choice("insertorder", &choices)
    }

    fn scans(&mut self) -> Result<Scans> {
        let lengths = [("uniform", Lengths::Uniform), ("zipfian", Lengths::Zipfian)];
        Ok(Scans {
            least: self.or("minscanlength", 1)?,
            most: self.or("maxscanlength", 1_000)?,
            lengths: self.choice("scanlengthdistribution", &lengths)?,
        })
    }

    /// `error` about a setting, with YCSB's name for it and the line that it is on.
    fn located(&self, error: Error) -> Error {
        match error {
            Error::InvalidSetting { setting, value, reason } => {
                let name = match setting {
                    "records" => "recordcount",
                    "operations" => "operationcount",
                    "threads" => "threadcount",
                    "fields" => "fieldcount",
                    "field-size" => "fieldlength",
                    other => other,
                };
                if name != setting && !self.lines.contains_key(name) {
                    // A size that was given by other means than the file.
                    return Error::InvalidSetting { setting, value, reason };
                }
                self.invalid(name, &value, &reason)
            }
            other => other,
        }
    }

    fn invalid(&self, setting: &'static str, value: &str, reason: &str) -> Error {
        let place = match self.lines.get(setting) {
            Some(line) => format!("{}, line {line}", self.file),
            None => self.file.to_owned(),
        };
        let reason = format!("{reason} ({place})");
        Error::InvalidSetting { setting, value: value.to_owned(), reason }
    }

    fn rest(self) -> Vec<Warning> {
        let warning = |property: Property| Warning {
            file: self.file.to_owned(),
            line: property.line,
            property: property.key,
        };
        self.properties.into_iter().map(warning).collect()
    }
}

#[cfg(test)]
mod tests;
