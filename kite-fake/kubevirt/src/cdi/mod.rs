//! CDI: disks that are filled from an image, another disk or nothing.

mod admission;
mod claim;
mod crons;
mod data_sources;
mod data_volumes;
mod profiles;
mod smart_clone;
mod source;
mod status;

pub use admission::CdiAdmission;
pub use crons::DataImportCrons;
pub use data_sources::DataSources;
pub use data_volumes::DataVolumes;
pub use profiles::StorageProfiles;
