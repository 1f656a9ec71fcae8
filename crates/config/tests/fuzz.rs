//! No text causes a panic, and every error names its location.

mod mutate;

#[test]
fn the_config_before_mutation_is_valid() {
    assert!(!mutate::check(mutate::GOOD));
}

#[test]
fn a_config_that_ends_at_any_byte_is_read_or_refused_with_a_line() {
    let refused =
        (0..mutate::GOOD.len()).filter(|end| mutate::check(&mutate::GOOD[..*end])).count();
    assert!(refused > mutate::GOOD.len() / 2, "only {refused} were refused");
}

#[test]
fn a_config_without_any_one_byte_is_read_or_refused_with_a_line() {
    for at in 0..mutate::GOOD.len() {
        mutate::check(&format!("{}{}", &mutate::GOOD[..at], &mutate::GOOD[at + 1..]));
    }
}

#[test]
fn a_mutated_config_is_read_or_refused_with_a_line() {
    let refused = (0..3_000).filter(|seed| mutate::check(&mutate::mutated(*seed))).count();
    assert!(
        (1_000..3_000).contains(&refused),
        "{refused} were refused: the accidents are too mild or too wild"
    );
}
