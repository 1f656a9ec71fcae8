//! Lists, page by page.

use tonic::Status;

use crate::limits::ENTRIES_MAX;

/// The entries of a page, and the token of the next one; empty if this is the last. A token is the
/// number of entries before the page.
///
/// # Errors
/// The number of entries is negative, or the token is none of these.
pub(crate) fn page<T>(
    all: Vec<T>,
    entries_max: i32,
    token: &str,
) -> Result<(Vec<T>, String), Status> {
    let many = usize::try_from(entries_max).map_err(|_| {
        Status::invalid_argument(format!("max_entries: found {entries_max}, expected none below 0"))
    })?;
    let many = if many == 0 { ENTRIES_MAX } else { many.min(ENTRIES_MAX) };
    let first = if token.is_empty() { Ok(0) } else { token.parse::<usize>() };
    let first = first.ok().filter(|first| *first <= all.len()).ok_or_else(|| {
        Status::aborted(format!("starting_token: found `{token}`, expected none, or one of these"))
    })?;
    let next = first + many;
    let token = if next < all.len() { next.to_string() } else { String::new() };
    Ok((all.into_iter().skip(first).take(many).collect(), token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_make_up_the_list() {
        let all: Vec<u32> = (0..10).collect();
        for many in 1..12 {
            let (mut seen, mut token) = (Vec::new(), String::new());
            loop {
                let (some, next) = page(all.clone(), many, &token).expect("it is one of these");
                seen.extend(some);
                if next.is_empty() {
                    break;
                }
                token = next;
            }
            assert_eq!(seen, all, "by {many}");
        }
        assert!(page(all.clone(), -1, "").is_err());
        assert!(page(all.clone(), 1, "11").is_err() && page(all, 1, "x").is_err());
    }
}
