//! Columns as Arrow's C data and C stream interfaces hand them over: capsules with structs that
//! pandas, polars, pyarrow and others take over.
//!
//! A column of integers is the memory of Python's `bytes`, which the consumer shares: nothing is
//! copied, and it lives for as long as any table has it. `arrow` writes the structs and frees them,
//! so that nothing here is unsafe.

use std::sync::Arc;

use ::arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, UInt64Builder,
};
use ::arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use ::arrow_array::ffi_stream::FFI_ArrowArrayStream;
use ::arrow_array::types::{Int64Type, UInt32Type, UInt64Type};
use ::arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, DictionaryArray, NullArray, PrimitiveArray,
    RecordBatch, RecordBatchIterator, RecordBatchOptions, StringArray, StructArray,
};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{Field, Schema};
use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBool, PyBytes, PyCapsule, PyFloat, PyInt, PyList, PyString};

use crate::bad_input;

/// A column as the Python half has it: its name, its kind, its values, and the labels of codes.
type Column<'py> = (String, String, Bound<'py, PyAny>, Option<Vec<String>>);

/// The memory of `bytes`, as values of a type that it is aligned for.
fn shared<T: ArrowPrimitiveType>(name: &str, values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let bytes = PyBackedBytes::from(values.cast::<PyBytes>()?.clone());
    let width = size_of::<T::Native>();
    if !bytes.len().is_multiple_of(width) {
        return Err(bad_input(format!("column {name}: found {} bytes", bytes.len())));
    }
    let buffer = Buffer::from(Bytes::from_owner(bytes));
    let buffer = if buffer.as_ptr().align_offset(align_of::<T::Native>()) == 0 {
        buffer
    } else {
        // No Python aligns `bytes` so badly; a copy is right all the same.
        Buffer::from_slice_ref(buffer.as_slice())
    };
    let values: ScalarBuffer<T::Native> = buffer.into();
    Ok(Arc::new(PrimitiveArray::<T>::new(values, None)))
}

/// What all values of a list are, `None` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    Bool,
    Integer,
    Float,
    Text,
}

impl Kind {
    fn of(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        // A truth value is an integer in Python too.
        if value.is_none() {
            Ok(Self::Nothing)
        } else if value.is_instance_of::<PyBool>() {
            Ok(Self::Bool)
        } else if value.is_instance_of::<PyInt>() {
            Ok(Self::Integer)
        } else if value.is_instance_of::<PyFloat>() {
            Ok(Self::Float)
        } else if value.is_instance_of::<PyString>() {
            Ok(Self::Text)
        } else {
            let expected = "expected numbers, texts or truth values";
            Err(bad_input(format!("column {name}: found {}, {expected}", value.get_type())))
        }
    }

    fn with(self, name: &str, other: Self) -> PyResult<Self> {
        match (self, other) {
            (one, two) if one == two => Ok(one),
            (Self::Nothing, one) | (one, Self::Nothing) => Ok(one),
            (Self::Integer, Self::Float) | (Self::Float, Self::Integer) => Ok(Self::Float),
            _ => {
                Err(bad_input(format!("column {name}: found {self:?} and {other:?}, expected one")))
            }
        }
    }
}

/// The values of a Python list: copied, because Python keeps each in an object.
fn listed(name: &str, values: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let list = values.cast::<PyList>()?;
    let mut kind = Kind::Nothing;
    for value in list {
        kind = kind.with(name, Kind::of(name, &value)?)?;
    }
    macro_rules! build {
        ($builder:expr, $type:ty) => {{
            let mut builder = $builder;
            for value in list {
                builder.append_option(value.extract::<Option<$type>>()?);
            }
            Arc::new(builder.finish()) as ArrayRef
        }};
    }
    Ok(match kind {
        Kind::Nothing => Arc::new(NullArray::new(list.len())),
        Kind::Bool => build!(BooleanBuilder::new(), bool),
        Kind::Integer => {
            let is_signed = list.iter().all(|value| value.extract::<Option<i64>>().is_ok());
            if is_signed {
                build!(Int64Builder::new(), i64)
            } else {
                build!(UInt64Builder::new(), u64)
            }
        }
        Kind::Float => build!(Float64Builder::new(), f64),
        Kind::Text => {
            let mut builder = StringBuilder::new();
            for value in list {
                builder.append_option(value.extract::<Option<String>>()?);
            }
            Arc::new(builder.finish())
        }
    })
}

/// Codes of 32 bits and what they stand for.
fn coded(name: &str, values: &Bound<'_, PyAny>, labels: Vec<String>) -> PyResult<ArrayRef> {
    let codes = shared::<UInt32Type>(name, values)?;
    let codes = codes.as_any().downcast_ref::<PrimitiveArray<UInt32Type>>().expect("made so");
    let labels = Arc::new(StringArray::from(labels));
    Ok(Arc::new(DictionaryArray::try_new(codes.clone(), labels).map_err(bad_input)?))
}

fn batch(columns: Vec<Column<'_>>, height: usize) -> PyResult<RecordBatch> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (name, kind, values, labels) in columns {
        let array = match (kind.as_str(), labels) {
            ("Q", None) => shared::<UInt64Type>(&name, &values)?,
            ("q", None) => shared::<Int64Type>(&name, &values)?,
            ("?", None) => {
                let bytes = PyBackedBytes::from(values.cast::<PyBytes>()?.clone());
                Arc::new(bytes.iter().map(|byte| Some(*byte != 0)).collect::<BooleanArray>())
            }
            ("I", Some(labels)) => coded(&name, &values, labels)?,
            ("list", None) => listed(&name, &values)?,
            _ => return Err(bad_input(format!("column {name}: found kind `{kind}`"))),
        };
        fields.push(Field::new(name, array.data_type().clone(), array.null_count() > 0));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(height));
    let schema = Arc::new(Schema::new(fields));
    RecordBatch::try_new_with_options(schema, arrays, &options).map_err(bad_input)
}

/// A capsule of Arrow's C stream interface, with the columns as one batch.
#[pyfunction]
pub(crate) fn arrow_stream<'py>(
    py: Python<'py>,
    columns: Vec<Column<'py>>,
    height: usize,
) -> PyResult<Bound<'py, PyCapsule>> {
    let batch = batch(columns, height)?;
    let schema = batch.schema();
    let batches = RecordBatchIterator::new([Ok(batch)], schema);
    let stream = FFI_ArrowArrayStream::new(Box::new(batches));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

/// The capsules of Arrow's C data interface: the schema, and the columns as a struct array.
#[pyfunction]
pub(crate) fn arrow_array<'py>(
    py: Python<'py>,
    columns: Vec<Column<'py>>,
    height: usize,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let batch = batch(columns, height)?;
    let schema = FFI_ArrowSchema::try_from(batch.schema().as_ref()).map_err(bad_input)?;
    let array = FFI_ArrowArray::new(&StructArray::from(batch).into_data());
    Ok((
        PyCapsule::new_with_value(py, schema, c"arrow_schema")?,
        PyCapsule::new_with_value(py, array, c"arrow_array")?,
    ))
}
