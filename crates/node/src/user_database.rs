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

/// The number of a group. A number in quotes is that number, unless a group has such a name.
pub(crate) fn group_id(group: &UserOrGroup) -> Option<u32> {
    match group {
        UserOrGroup::Number(number) => Some(*number),
        UserOrGroup::Name(name) => match Group::from_name(name).ok().flatten() {
            Some(entry) => Some(entry.gid.as_raw()),
            None => name.parse().ok(),
        },
    }
}

/// A group that this machine does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no group {0} on this machine: create it (`groupadd`), write its number, or name \
     another one"
)]
pub struct NoGroup(UserOrGroup);

/// The number of a group that must exist.
pub fn known_group(group: &UserOrGroup) -> Result<u32, NoGroup> {
    group_id(group).ok_or_else(|| NoGroup(group.clone()))
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
        assert_eq!(group_id(&UserOrGroup::Name("0".into())), Some(0), "a number in quotes");
        let missing = known_group(&UserOrGroup::Name("no-such-group-of-kgate".into()));
        assert!(missing.unwrap_err().to_string().contains("groupadd"));
    }
}
