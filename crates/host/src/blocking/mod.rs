//! Work that blocks a thread: the daemon's own file work, and what pods name, on threads of its own and bounded for each owner. Does not
//! know what the work is for.

mod file_work;
mod in_place;
mod lookup;
mod path_work;
mod places;
mod slow_work;

pub use file_work::file_work;
#[cfg(any(test, feature = "fakes"))]
pub use in_place::work_in_place;
pub use lookup::NameLookups;
pub use path_work::{PathError, PathWork, path_unit};
pub use places::{Place, Places};
pub use slow_work::slow_work;
