//! Runs the benches; so far it only names the guard, which has a program of its own.
fn main() {
    println!("cargo xtask guard");
}
