//! Chooses the manifest that a repair uses.

use crate::inspect::{Inspector, path};
use crate::manifest::manifest_file::{CURRENT, parse_manifest_file_name, read_current};
use crate::manifest::manifest_state::ManifestState;
use crate::recovery::replay;
use crate::recovery::unlisted_files::Known;
use crate::version::parse_table_file_name;
use esker_base::{Error, MAX_SEQNO, Result};
use esker_table::tables_in;
use std::cmp::Reverse;

/// The manifest that a repair goes by.
pub(super) struct ManifestChoice {
    pub(super) name: String,
    pub(super) identity: u64,
    pub(super) state: ManifestState,
    /// Whether it is the one that `CURRENT` names.
    pub(super) in_force: bool,
    /// The ones before it in line, and what is wrong with them.
    pub(super) given_up: Vec<String>,
}

impl Inspector {
    /// The current manifest, or, if it is damaged, the newest that is not and whose tables are there.
    /// If nothing is there to go by, what is wrong with each. Fails if one can't be read for another
    /// reason: then it may be sound.
    pub(super) fn choose(&self) -> Result<Result<ManifestChoice, Vec<Error>>> {
        let current = self.current_if_sound()?;
        let names = self.manifests(current.as_deref())?;
        let mut damages = Vec::new();
        if let Some(name) = current.as_ref().filter(|name| !names.contains(name)) {
            let what = format!("it names {name}, which is missing");
            damages.push(Error::corruption(path(&*self.storage, CURRENT), 0, what));
        }
        for name in names {
            match self.load(&name, damages.is_empty()) {
                Ok((identity, state)) => {
                    let in_force = Some(&name) == current.as_ref();
                    let given_up = damages.iter().map(Error::fact).collect();
                    return Ok(Ok(ManifestChoice { name, identity, state, in_force, given_up }));
                }
                Err(error) if error.is_corruption() => damages.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(Err(damages))
    }

    /// The state that a manifest describes. The tables of the first in line may be damaged or missing;
    /// a later one whose tables are not all there was replaced long ago.
    fn load(&self, name: &str, is_first: bool) -> Result<(u64, ManifestState)> {
        let (identity, state) = replay::load_state(&self.storage, name)?;
        if !is_first {
            replay::check_table_files(&*self.storage, &state)?;
        }
        if let Err(missing) = replay::check_table_files(&*self.storage, &state)
            && (!missing.is_corruption() || self.has_other_tables(&state)?)
        {
            // They may be what a compaction made of those that are missing.
            return Err(missing);
        }
        // Of strays only those count that show that edits are missing.
        let last_seqno = MAX_SEQNO;
        let known = Known { identity, state: &state, manifest: name, last_seqno };
        let fates = known.fates(&*self.storage, &self.storage.list()?)?;
        self.loss_in(fates.values(), name)?.map_or(Ok((identity, state)), Err)
    }

    /// Whether there is a whole table file that `state` does not list.
    fn has_other_tables(&self, state: &ManifestState) -> Result<bool> {
        let files = state.files();
        for name in self.storage.list()? {
            let Some(id) = parse_table_file_name(&name).filter(|id| !files.contains(id)) else {
                continue;
            };
            if tables_in(&self.storage.open(&name)?, id)?.is_some_and(|tables| !tables.is_empty()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn current_if_sound(&self) -> Result<Option<String>> {
        if !self.storage.exists(CURRENT)? {
            return Ok(None);
        }
        match read_current(&*self.storage) {
            Ok(name) => Ok(Some(name)),
            Err(error) if error.is_corruption() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The names of all manifest files: first the current one, if that is known, then the others,
    /// newest first.
    pub(in crate::inspect) fn manifests(&self, current: Option<&str>) -> Result<Vec<String>> {
        let mut names = self.storage.list()?;
        names.retain(|name| parse_manifest_file_name(name).is_some());
        names.sort_by_key(|name| {
            (Some(&name[..]) != current, Reverse(parse_manifest_file_name(name)))
        });
        Ok(names)
    }
}
