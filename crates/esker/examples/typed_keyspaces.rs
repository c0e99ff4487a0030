//! A typed keyspace: users by tenant and name, stored as JSON.
//!
//! cargo run -p esker --features typed --example typed_keyspaces

use esker::typed::{Json, OpenTyped, TypedError};
use esker::{Db, Settings};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct User {
    role: String,
    year: i32,
}

/// Runs the example in a temporary directory.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path().join("data"), Settings::default())?;
    let users = db.typed::<(u32, String), Json<User>>("users")?;
    let user = |role: &str, year| Json(User { role: role.to_owned(), year });

    users.put(&(10, "linus".into()), &user("maintainer", 1969))?;
    let mut batch = db.batch();
    users.put_in(&mut batch, &(2, "grace".into()), &user("admiral", 1906))?;
    users.put_in(&mut batch, &(2, "ada".into()), &user("analyst", 1815))?;
    db.write(&batch)?;

    // Tenant 2 comes before tenant 10, and names are sorted in each.
    let all: Result<Vec<_>, TypedError> = users.iter().collect();
    let names: Vec<String> = all?.into_iter().map(|((_, name), _)| name).collect();
    assert_eq!(names, ["ada", "grace", "linus"]);

    // The last user of tenant 2.
    let last = users.prefix(&(2_u32,)).next_back().transpose()?;
    let ((_, name), Json(found)) = last.ok_or("there are two")?;
    assert_eq!((name.as_str(), found.year), ("grace", 1906));
    db.close()?;
    Ok(())
}
