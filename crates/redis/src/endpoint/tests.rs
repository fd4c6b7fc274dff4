use super::*;

fn parsed(url: &str) -> Endpoint {
    url.parse().unwrap()
}

fn refused(url: &str) -> String {
    url.parse::<Endpoint>().unwrap_err().to_string()
}

#[test]
fn every_part_is_read() {
    let endpoint = parsed("rediss://limiter:p%40ss%3Aword@redis-1.example:6380/2");
    assert_eq!(endpoint.address, Address::new("redis-1.example", 6380));
    assert!(endpoint.is_tls);
    assert_eq!(endpoint.database, 2);
    let Credentials { user, password } = endpoint.credentials.unwrap();
    assert_eq!(
        (user.as_deref(), password.as_str()),
        (Some("limiter"), "p@ss:word")
    );
}

#[test]
fn most_parts_may_be_left_out() {
    assert_eq!(
        parsed("redis://localhost").address,
        Address::new("localhost", 6379)
    );
    assert_eq!(parsed("redis://localhost/").database, 0);
    assert_eq!(
        parsed("redis://[::1]:7000").address,
        Address::new("::1", 7000)
    );
    assert_eq!(parsed("redis://[::1]").address.to_string(), "[::1]:6379");
    assert_eq!(
        parsed("redis://:secret@localhost")
            .credentials
            .unwrap()
            .user,
        None
    );
    assert_eq!(parsed("redis://@localhost").credentials, None);
}

#[test]
fn a_password_may_hold_an_at_sign_as_it_is() {
    let endpoint = parsed("redis://:a@b@host");
    assert_eq!(endpoint.credentials.unwrap().password, "a@b");
}

#[test]
fn what_is_wrong_is_named() {
    assert!(refused("http://localhost").contains("begins with \"http\""));
    assert!(refused("localhost:6379").contains("must be redis://host:port"));
    assert!(refused("redis://").contains("host is \"\""));
    assert!(refused("redis://host:0").contains("port is \"0\""));
    assert!(refused("redis://host:99999").contains("1 to 65535"));
    assert!(refused("redis://host/x").contains("database is \"not a number\""));
    assert!(refused("redis://user@host").contains("user:password@"));
}

#[test]
fn a_password_is_never_shown() {
    let shown = |endpoint: &Endpoint| format!("{endpoint} {endpoint:?} {:?}", endpoint.credentials);
    for url in [
        "redis://:hunter2@host",
        "redis://ann:hunter2@host",
        "rediss://ann:hunter2@host:1/3",
    ] {
        assert!(!shown(&parsed(url)).contains("hunter2"));
    }
    for url in [
        "redis://ann:hunter2@",
        "redis://ann:hunter2@ho st",
        "redis://ann:hunter2@host:x",
        "x://a:hunter2@h",
    ] {
        let error = url.parse::<Endpoint>().unwrap_err();
        assert!(
            !format!("{error} {error:?}").contains("hunter2"),
            "{error:?}"
        );
    }
    for url in [
        "redis://ann:hunter2",
        "redis://host:6379?password=hunter2",
        "redis://host:6379/0?password=hunter2",
        "redis://host?password=hunter2",
    ] {
        let error = url.parse::<Endpoint>().unwrap_err();
        assert!(
            !format!("{error} {error:?}").contains("hunter2"),
            "{error:?}"
        );
    }
    for url in [
        "ann:hunter2@host",
        "redis:ann:hunter2@host",
        "redis:/ann:hunter2@host/x://y",
    ] {
        let error = url.parse::<Endpoint>().unwrap_err();
        assert!(
            !format!("{error} {error:?}").contains("hunter2"),
            "{error:?}"
        );
    }
}
