//! The top of the file, and `[listen]`.

use super::*;

#[test]
fn a_seed_in_quotes() {
    assert_eq!(
        refused(&[], "seed = \"1\"\n"),
        "plan.toml:1: field `seed`: found `\"1\"`, expected a whole number from 0 to \
         18446744073709551615, without quotes"
    );
}

#[test]
fn a_seed_below_zero() {
    assert_eq!(
        refused(&[], "seed = -1\n"),
        "plan.toml:1: field `seed`: found `-1`, expected a whole number from 0 to \
         18446744073709551615"
    );
}

#[test]
fn a_zero_or_too_long_duration() {
    for bad in ["0s", "10000001s", "1.5", "85"] {
        assert_eq!(
            refused(&[], &format!("duration = \"{bad}\"\n")),
            format!(
                "plan.toml:1: field `duration`: found `{bad}`, expected a time from 1ns to \
                 10000000s"
            )
        );
    }
}

#[test]
fn an_invalid_address() {
    for bad in ["localhost", "unix:", "127.0.0.1:99999", ""] {
        assert_eq!(
            refused(&[], &format!("[listen]\nnbd = [\n\"{bad}\"]\n")),
            format!(
                "plan.toml:3: [listen]: field `nbd`: found `{bad}`, expected `unix:PATH` or \
                 `ADDRESS:PORT`, such as 127.0.0.1:10809"
            )
        );
    }
}

#[test]
fn an_address_that_is_given_twice() {
    assert_eq!(
        refused(&[], "[listen]\nnbd = [\"unix:a\",\n\"unix:a\"]\n"),
        "plan.toml:3: [listen]: field `nbd`: found `unix:a`, expected each address once \
         (line 2 has it already)"
    );
}

#[test]
fn a_socket_with_too_long_a_path() {
    let message = refused(&[], &format!("[listen]\nnbd = [\"unix:/{}\"]\n", "x".repeat(107)));
    assert!(message.ends_with("…`, expected a path of at most 107 bytes"), "{message}");
}

#[test]
fn addresses_that_are_not_a_list() {
    assert_eq!(
        refused(&[], "[listen]\nnbd = \"unix:a\"\n"),
        "plan.toml:2: [listen]: field `nbd`: found `unix:a`, expected a list of at most 16, each \
         `unix:PATH` or `ADDRESS:PORT`, such as 127.0.0.1:10809"
    );
}

#[test]
fn too_many_addresses() {
    let addresses: Vec<_> = (1..=17).map(|port| format!("\"[::1]:{port}\"")).collect();
    let message = refused(&[], &format!("[listen]\nnbd = [{}]\n", addresses.join(", ")));
    let expected = "expected a list of at most 16, each `unix:PATH` or `ADDRESS:PORT`, such as \
         127.0.0.1:10809";
    assert!(
        message.starts_with("plan.toml:2: [listen]: field `nbd`: found `[\"[::1]:1\","),
        "{message}"
    );
    assert!(message.ends_with(expected), "{message}");
}
