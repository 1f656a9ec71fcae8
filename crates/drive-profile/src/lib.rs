//! What is known of a drive: its measured profile and its worst cases, as values.
