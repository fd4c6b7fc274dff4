use super::*;

fn parse(url: &str) -> Endpoint {
    url.parse().unwrap()
}

fn error_text(url: &str) -> String {
    url.parse::<Endpoint>().unwrap_err().to_string()
}

#[test]
fn all_parts_of_a_url_are_parsed() {
    let endpoint = parse("rediss://limiter:p%40ss%3Aword@redis-1.example:6380/2");
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
fn optional_parts_have_defaults() {
    assert_eq!(
        parse("redis://localhost").address,
        Address::new("localhost", 6379)
    );
    assert_eq!(parse("redis://localhost/").database, 0);
    assert_eq!(
        parse("redis://[::1]:7000").address,
        Address::new("::1", 7000)
    );
    assert_eq!(parse("redis://[::1]").address.to_string(), "[::1]:6379");
    assert_eq!(
        parse("redis://:secret@localhost").credentials.unwrap().user,
        None
    );
    assert!(parse("redis://@localhost").credentials.is_none());
}

#[test]
fn a_password_may_contain_an_unescaped_at_sign() {
    let endpoint = parse("redis://:a@b@host");
    assert_eq!(endpoint.credentials.unwrap().password, "a@b");
}

#[test]
fn errors_name_the_invalid_part() {
    assert!(error_text("http://localhost").contains("scheme \"http\""));
    assert!(error_text("localhost:6379").contains("must be redis:// or rediss://"));
    assert!(error_text("redis://").contains("host \"\""));
    assert!(error_text("redis://host:0").contains("port \"0\""));
    assert!(error_text("redis://host:99999").contains("between 1 and 65535"));
    assert!(error_text("redis://host/x").contains("database \"not a number\""));
    assert!(error_text("redis://user@host").contains("user:password@"));
}

#[test]
fn a_password_is_never_shown() {
    let shown = |endpoint: &Endpoint| format!("{endpoint} {endpoint:?}");

    for url in [
        "redis://:hunter2@host",
        "redis://ann:hunter2@host",
        "rediss://ann:hunter2@host:1/3",
    ] {
        assert!(!shown(&parse(url)).contains("hunter2"));
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
