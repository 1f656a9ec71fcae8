pub(crate) mod angle;
pub(crate) mod bisection;
pub(crate) mod curve_smoothing;
pub(crate) mod least_squares;
pub(crate) mod number;
pub(crate) mod sequential_test;
pub(crate) mod variation;
