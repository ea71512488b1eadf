//! The API of a node against those who should not be there, or should not be there for that: real
//! sockets, real TLS.

mod fixture;
mod floods;
mod frames;
mod lists;
mod log;
mod tls;
mod unknown_clients;
