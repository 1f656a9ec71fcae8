//! Drives and profiles as text: the library, the DiskSim importer, profile files.
