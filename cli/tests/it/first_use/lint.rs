//! What `validate` accepts, refuses and says.
