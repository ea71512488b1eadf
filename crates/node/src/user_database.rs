//! Users and groups of this machine, by the user database (files, LDAP and whatever else the system
//! is configured for).

use nix::unistd::{Gid, Group, Uid, User};

use crate::serve::authorisation::{GroupMembers, UserOrGroup};

/// The number of a user.
pub(crate) fn user_id(name: &str) -> Option<u32> {
    Some(User::from_name(name).ok()??.uid.as_raw())
}

/// The name of a user, or its number if it has none.
pub(crate) fn user_name(user: u32) -> String {
    let entry = User::from_uid(Uid::from_raw(user)).ok().flatten();
    entry.map_or_else(|| user.to_string(), |entry| entry.name)
}

/// The number of a group.
pub(crate) fn group_id(group: &UserOrGroup) -> Option<u32> {
    match group {
        UserOrGroup::Number(number) => Some(*number),
        UserOrGroup::Name(name) => Some(Group::from_name(name).ok()??.gid.as_raw()),
    }
}

/// The users that the database lists as members of a group.
pub(crate) fn group_members(group: &UserOrGroup) -> Option<GroupMembers> {
    let number = group_id(group)?;
    let entry = Group::from_gid(Gid::from_raw(number)).ok().flatten();
    let names = entry.map(|entry| entry.mem).unwrap_or_default();
    let users = names.iter().filter_map(|name| user_id(name)).collect();
    Some(GroupMembers { group: number, users })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The one user and group that every system has.
    #[test]
    fn root_is_known() {
        assert_eq!((user_id("root"), user_name(0)), (Some(0), "root".to_owned()));
        assert_eq!(user_id("no-such-user-of-kgate"), None);
        assert_eq!(user_name(u32::MAX - 7), (u32::MAX - 7).to_string());
        let members = |name: &str| group_members(&UserOrGroup::Name(name.into()));
        assert_eq!(members("root").map(|members| members.group), Some(0));
        assert_eq!(members("no-such-group-of-kgate"), None);
    }
}
