//! Properties that hold for all input.

use proptest::prelude::*;

use super::*;
use crate::fuzz::OneExport;

/// One valid message, or one that is refused.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let any_command = prop_oneof![0_u16..9, Just(99)];
    (any_command, 0_u16..4, any::<u64>(), 0_u64..64, 0_u32..40).prop_map(
        |(command, flags, cookie, block, blocks)| {
            let mut bytes = head(flags, command, cookie, block * 512, blocks * 512);
            if command == command::WRITE {
                let length = usize::try_from(blocks * 512).expect("small");
                bytes.extend((0..length).map(|n| u8::try_from(n % 251).expect("a byte")));
            }
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn how_bytes_are_cut_does_not_matter(
        messages in prop::collection::vec(message(), 0..12),
        cuts in prop::collection::vec(1_usize..3_000, 1..40),
    ) {
        let mut stream = u32::from(FIXED_NEWSTYLE).to_be_bytes().to_vec();
        option_request(&mut stream, 42, &[&[0; 100]]);
        option_request(&mut stream, option::LIST, &[]);
        option_request(&mut stream, option::GO, &[&info_data(b"", &[info::BLOCK_SIZE])]);
        stream.extend(messages.iter().flatten());
        let run = |pieces: &mut dyn Iterator<Item = usize>| {
            let mut timeline = Timeline::new(OneExport(32 * 512).list());
            let mut rest = &stream[..];
            while !rest.is_empty() && timeline.session.wants_input() {
                let cut = pieces.next().unwrap_or(rest.len()).min(rest.len());
                timeline.feed(&rest[..cut]);
                rest = &rest[cut..];
            }
            let said = timeline.said();
            (timeline.events, said)
        };
        let whole = run(&mut core::iter::empty());
        prop_assert_eq!(&run(&mut cuts.iter().copied().cycle()), &whole);
        prop_assert_eq!(&run(&mut core::iter::repeat(1)), &whole);
    }
}

#[test]
fn streams_of_nonsense_do_no_harm() {
    crate::fuzz::run(1, 3_000).expect("no seed fails");
}
