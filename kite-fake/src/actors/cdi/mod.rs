//! CDI: disks that are filled from an image, another disk or nothing.

mod admission;
mod claim;
mod data_sources;
mod data_volumes;
mod source;
mod status;

pub use admission::CdiAdmission;
pub use data_sources::DataSources;
pub use data_volumes::DataVolumes;
