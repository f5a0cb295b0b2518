//! `docs/cli.md`, made from the help of the program itself, and the documentation of the library.

use std::error::Error;
use std::fs;
use std::path::Path;

use crate::cargo;

const PAGE: &str = "docs/cli.md";

/// Writes the page.
pub fn write(root: &Path) -> Result<(), Box<dyn Error>> {
    Ok(fs::write(root.join(PAGE), help(root)?)?)
}

/// Fails when the page in the repository is not the one that would be written, or a link in the library's documentation
/// leads nowhere.
pub fn check(root: &Path) -> Result<(), Box<dyn Error>> {
    let doc = ["doc", "--quiet", "--workspace", "--lib", "--no-deps", "--locked"];
    if !cargo::command(root, &doc).env("RUSTDOCFLAGS", "-D warnings").status()?.success() {
        return Err("the documentation of the library has warnings".into());
    }
    if fs::read_to_string(root.join(PAGE)).unwrap_or_default() == help(root)? {
        return Ok(());
    }
    Err(format!("{PAGE} is not what the program's help says; run `cargo xtask docs` and commit the result").into())
}

fn help(root: &Path) -> Result<String, Box<dyn Error>> {
    let output =
        cargo::command(root, &["run", "--quiet", "--package", "pleach-cli", "--", "__help-markdown"]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
