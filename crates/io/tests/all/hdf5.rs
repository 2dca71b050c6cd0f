//! The HDF5 reader, seen from outside: real files, and files that are broken. Files of each kind
//! that h5py can write are read in `tests/test_hdf5.py`.

mod conformance;
mod hostile;
