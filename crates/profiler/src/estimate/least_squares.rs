//! Linear least squares.

/// The least-squares parameters of rows of `N` weights and an outcome. `None` if the rows do not
/// determine them.
pub(crate) fn fit<const N: usize>(rows: &[([f64; N], f64)]) -> Option<[f64; N]> {
    let mut matrix = [[0.0_f64; N]; N];
    let mut outcome = [0.0_f64; N];
    for (weights, value) in rows {
        for row in 0..N {
            outcome[row] += weights[row] * value;
            for column in 0..N {
                matrix[row][column] += weights[row] * weights[column];
            }
        }
    }
    for pivot in 0..N {
        let largest = (pivot..N)
            .max_by(|a, b| matrix[*a][pivot].abs().total_cmp(&matrix[*b][pivot].abs()))?;
        matrix.swap(pivot, largest);
        outcome.swap(pivot, largest);
        if matrix[pivot][pivot].abs() < 1e-9 {
            return None;
        }
        for row in 0..N {
            if row != pivot {
                let by = matrix[row][pivot] / matrix[pivot][pivot];
                let of = matrix[pivot];
                for (cell, above) in matrix[row].iter_mut().zip(of) {
                    *cell -= by * above;
                }
                outcome[row] -= by * outcome[pivot];
            }
        }
    }
    let mut parameters = [0.0; N];
    for (nth, parameter) in parameters.iter_mut().enumerate() {
        *parameter = outcome[nth] / matrix[nth][nth];
    }
    Some(parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let rows: Vec<([f64; 2], f64)> =
            (0..9_u32).map(f64::from).map(|x| ([1.0, x], 3.0 - 0.25 * x)).collect();
        let [level, slope] = fit(&rows).expect("a line");
        assert!((level - 3.0).abs() < 1e-12 && (slope + 0.25).abs() < 1e-12);
        assert_eq!(fit::<2>(&rows[..1]), None);
    }
}
