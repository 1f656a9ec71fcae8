//! Checks of the tree itself: words, widths, links, import circles, assertions.
