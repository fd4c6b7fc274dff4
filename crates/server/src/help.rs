//! The text below the options in `--help`: examples, environment variables and exit codes.

/// The end of the help of commands that act through the admin port.
macro_rules! admin_port {
    () => {
        "\
Environment variables:
  TOLLGATE_ADMIN_TOKEN  token of the admin listener, if it requires one

Exit codes:
  0  success
  2  invalid arguments, or the admin port rejected the request
  3  no response from the admin port, or the store is unavailable"
    };
}

pub(crate) const TOLLGATE: &str = "\
Examples:
  tollgate serve                                   run the service with the built-in limit
  tollgate check -a client_ip=203.0.113.7          check a request against it
  tollgate explain -a client_ip=203.0.113.7        see which limits apply, and why
  tollgate validate tollgate.yaml                  validate a configuration
  tollgate load -a client_ip={ip}                  verify under load that limits hold
  tollgate simulate -c tollgate.yaml access.log    see which requests it would have denied

Exit codes:
  0  success; check and reserve: allowed
  1  check and reserve: denied; load: failed; audit-paths: requests got past a limit
  2  invalid arguments, configuration or request
  3  no response from the service

`tollgate COMMAND --help` describes each command.";

pub(crate) const SERVE: &str = "\
Examples:
  tollgate serve
  tollgate serve --config tollgate.yaml --http 0.0.0.0:8080

Environment variables:
  TOLLGATE_LOG          log level or filter, such as `warn` or `info,tollgate_server=debug`
                        [default: info]
  TOLLGATE_ADMIN_TOKEN  token that the admin listener requires, at least 16 characters; mandatory
                        unless it listens on a loopback address
  TOLLGATE_ADMIN_VIEW_TOKEN
                        another token for the admin listener, which may only view

The configuration can refer to further variables, such as ${REDIS_PASSWORD}. It is reloaded when the
file changes and on SIGHUP; an invalid file is rejected and the active configuration stays. SIGTERM
and SIGINT shut the service down after draining connections.

Exit codes:
  0  stopped by a signal
  2  cannot start: invalid configuration, or an address is in use";

pub(crate) const VALIDATE: &str = "\
Errors are printed to standard error, one per line: FILE:LINE:COLUMN: FIELD: MESSAGE
Variables such as ${REDIS_PASSWORD} must be set. No server is contacted.

Examples:
  tollgate validate tollgate.yaml
  REDIS_PASSWORD=x tollgate validate --json staging.yaml production.yaml
  helm template . | tollgate validate -

Exit codes:
  0  all files are valid
  2  at least one file is invalid";

pub(crate) const EXPLAIN: &str = "\
Works from the configuration alone: nothing is counted and no service is contacted. Hashed
attributes are shown as their hash.

Examples:
  tollgate explain -c tollgate.yaml -a client_ip=203.0.113.7 -a method=POST -a path=/auth/login
  tollgate explain -c tollgate.yaml -l plan -a header:x-api-key=k1 -a path=/v1/users -a tier=pro

Exit codes:
  0  success, whether or not a limit applies
  2  invalid arguments or configuration";

pub(crate) const CHECK: &str = "\
The exit code follows the decision. If the store is unavailable, a limit with on_store_failure: deny
denies with status 503: that is a denial (1). A 503 without a decision is no response (3).

Examples:
  tollgate check -a client_ip=203.0.113.7
  tollgate check --url 10.0.0.5:8080 --limit login-account -a email=ann@example.com
  tollgate check --peek --json -a client_ip=203.0.113.7 | jq .limits
  tollgate check --count --cost 250 --limit tokens -a user=ann
  tollgate check --url https://limits.internal:8080 --ca ca.crt -a client_ip=203.0.113.7

Environment variables:
  TOLLGATE_TOKEN  token of the service, if it requires one

Exit codes:
  0  allowed
  1  denied
  2  invalid arguments, or the service rejected the request
  3  no response: connection refused, timed out, or no decision";

pub(crate) const RESERVE: &str = "\
The estimate is charged to all limits, or to none if one of them denies it. Settle or cancel the
reservation before it expires; otherwise each limit keeps or returns what it charged, as its
on_reservation_expiry says.

Examples:
  tollgate reserve -a user=ann --cost 2900 --ttl 2m
  tollgate reserve -a user=ann --tokens input=900 --tokens output=500
  id=$(tollgate reserve -a user=ann --cost 2900 --json | jq -r .reservation)

Environment variables:
  TOLLGATE_TOKEN  token of the service, if it requires one

Exit codes:
  0  reserved
  1  denied
  2  invalid arguments, or the service rejected the request
  3  no response: connection refused, timed out, or no decision";

pub(crate) const SETTLE: &str = "\
The whole cost is charged, even if it is more than the estimate: what does not fit is owed. A
reservation is settled once, so a settlement without a response may be sent again.

Examples:
  tollgate settle $id --actual 5727
  tollgate settle $id --tokens input=911 --tokens output=1204

Environment variables:
  TOLLGATE_TOKEN  token of the service, if it requires one

Exit codes:
  0  settled, now or before
  2  invalid arguments, or not a reservation of this service
  3  no response, or the store is unavailable: settle it again";

pub(crate) const CANCEL: &str = "\
Example:
  tollgate cancel $id

Environment variables:
  TOLLGATE_TOKEN  token of the service, if it requires one

Exit codes:
  0  cancelled, or settled before
  2  invalid arguments, or not a reservation of this service
  3  no response, or the store is unavailable: cancel it again";

pub(crate) const KEYS: &str = "\
Environment variables:
  TOLLGATE_ADMIN_TOKEN  token of the admin listener, if it requires one
  TOLLGATE_TOKEN        otherwise: a token that allows `reset`, for `keys reset`

Examples:
  tollgate keys get --limit login-account -a email=ann@example.com
  tollgate keys reset --limit login-account -a email=ann@example.com
  tollgate keys top --limit login-account --minutes 5

Exit codes:
  0  success
  2  invalid arguments, or the admin port rejected the request
  3  no response from the admin port, or the store is unavailable";

pub(crate) const KEYS_GET: &str = "\
Example:
  tollgate keys get --limit login-account -a email=ann@example.com

Exit codes:
  0  success
  2  invalid arguments, or the admin port rejected the request (is TOLLGATE_ADMIN_TOKEN set?)
  3  no response from the admin port";

pub(crate) const KEYS_RESET: &str = "\
Example:
  tollgate keys reset --limit login-account -a email=ann@example.com

Exit codes:
  0  the key was reset
  2  invalid arguments, or the admin port rejected the request (is TOLLGATE_ADMIN_TOKEN set?)
  3  no response from the admin port, or the store is unavailable";

pub(crate) const KEYS_TOP: &str = "\
The counts are of all replicas that share the store. They are upper bounds: where a count may be too
high, what is certain is printed with it. Shadow limits count as denying what they would deny.

A hashed key is shown as its hash. `tollgate keys get --limit NAME -a ATTRIBUTE=VALUE` prints the
hash of a value, so a customer's value can be found in the list.

Examples:
  tollgate keys top
  tollgate keys top --limit login-account --admitted --minutes 60
  tollgate keys top --json --count 100 | jq '.keys[] | select(.units_per_second > 10)'

Exit codes:
  0  success, even if no key is listed
  2  invalid arguments, or the admin port rejected the request (is TOLLGATE_ADMIN_TOKEN set?)
  3  no response from the admin port";

pub(crate) const BLOCK: &str = concat!(
    "\
Requests of the key are denied on every replica within a second, and nothing is charged.

Examples:
  tollgate block -l api -a client_ip=203.0.113.7 --for 1h --reason scraping
  tollgate block -l api --network 203.0.113.0/24 --for 1h --reason scraping --status 403
  tollgate block list
  tollgate block remove block-0f2d6f4be1c1a37e

",
    admin_port!()
);

pub(crate) const EXEMPT: &str = concat!(
    "\
Requests of the key pass the limit and are not charged.

Examples:
  tollgate exempt -l api -a client_ip=203.0.113.7 --for 1d --reason 'load test'
  tollgate exempt list
  tollgate exempt remove exemption-0f2d6f4be1c1a37e

",
    admin_port!()
);

pub(crate) const OVERRIDE: &str = concat!(
    "\
The window of a limit stays the same. What the key has used still counts.

Examples:
  tollgate override -l api -a client_ip=203.0.113.7 --multiply 2 --for 1d --reason migration
  tollgate override -l plan -a user=ann --tier pro --for 7d --reason trial
  tollgate override -l api -a user=ann --set limit=500 --for 1h --reason 'ticket 4711'
  tollgate override list

",
    admin_port!()
);

pub(crate) const SHADOW: &str = concat!(
    "\
A shadow limit counts and reports, and never denies. Blocks still deny.

Examples:
  tollgate shadow -l api --for 1h --reason 'denies too much'
  tollgate shadow -l api --off --for 1h --reason 'enforce it now'
  tollgate shadow list
  tollgate shadow remove shadow-0f2d6f4be1c1a37e

",
    admin_port!()
);

pub(crate) const LOAD: &str = "\
Requests are sent when they are due, whether or not earlier ones have been answered (open loop), and
latencies are measured from the due time. Attribute values can contain placeholders: {key} is the
name of the client, {ip} an address of its own.

A limit is reported as exceeded only if that is certain: a request was admitted at some time between
its sending and its response, and an interval counts only the requests of which it contains both.
With --config, limits are judged by the configuration. Without it, they are judged by what responses
say about them, which detects fewer violations. An application (--get) is judged by --allow.

The load fails if a limit was exceeded, if allowed requests met no limit (--unlimited-max), if
requests got no decision (--errors-max), or if failure policies decided (--degraded-max).

Keys:
  one            always the same client
  uniform:N      one of N clients, all equally likely
  zipf:N[:S]     one of N clients, the k-th in proportion to 1/k^S [default S: 1]
  file:PATH      any line of a file

Shapes:
  steady                requests arrive as --arrivals says
  credential-stuffing   {key} is an account; each request comes from any of --addresses, as {ip}
  edge-burst            bursts around the edges of windows of length --window

Examples:
  tollgate load --rate 5000 --duration 30s
  tollgate load --url 10.0.0.5:8080 --url 10.0.0.6:8080 -a tenant={key} --keys zipf:10000:1.1
  tollgate load --shape credential-stuffing --limit login-account -a client_ip={ip} -a email={key}
  tollgate load --get /search?q=x -a header:x-api-key={key} --keys uniform:50 --allow 120/1m

Environment variables:
  TOLLGATE_TOKEN  token of the service, if it requires one; not sent with --get

Exit codes:
  0  passed: every limit that could be judged held
  1  failed: a limit was exceeded, or too many requests met no limit or got no decision
  2  invalid arguments, configuration or request
  3  no response: connection refused, or not a single decision";

pub(crate) const SIMULATE: &str = "\
Each request is checked at the time of its log line, with the selection and the algorithms of the
service; no server is contacted. Supported are the common and combined log formats, with or without
a leading virtual host, and JSON as written by nginx, Caddy and Traefik; gzip is detected. A line
provides client_ip, method, path, host if logged, query:<name>, header:user-agent, header:referer,
user, status and bytes; JSON lines also provide any other field by its name.

Examples:
  tollgate simulate --config tollgate.yaml /var/log/nginx/access.log
  tollgate simulate -c tollgate.yaml --html report.html access.log.2.gz access.log.1 access.log
  tollgate simulate --config old.yaml --against new.yaml --json access.log | jq .comparison
  zcat access.log.*.gz | tollgate simulate --config tollgate.yaml -
  tollgate simulate --suggest --field time=ts --field tenant=labels.tenant caddy.json

Exit codes:
  0  success, whether or not requests would have been denied
  2  invalid arguments or configuration, or no line of the log is readable";

pub(crate) const AUDIT_PATHS: &str = "\
Sends the plain request until the limit denies it, then every variant: of the path, and of the query
parameters, the cookie and the headers that are given. A variant that still gets the handler's
response reaches the handler without being counted. Requests are sent one after another, and only to
the URL. They use the limit up for this client, so audit a test stack, or reset the key afterwards.

Examples:
  tollgate audit-paths --url http://127.0.0.1/auth/login
  tollgate audit-paths --url http://127.0.0.1/api/me --method GET --cookie session=abc
  tollgate audit-paths --url http://127.0.0.1/v1/items?user=ann -H 'X-Api-Key: k1' --json
  tollgate audit-paths --url http://127.0.0.1/auth/login --thorough --class dot-segment

Exit codes:
  0  every variant that reached the handler was counted
  1  at least one variant reached the handler uncounted
  2  invalid arguments
  3  no response, or the limit could not be used up";

pub(crate) const IMPORT: &str = "\
Formats:
  envoy      YAML of envoyproxy/ratelimit
  limitador  limits file of Limitador
  nginx      configuration with limit_req or limit_conn; included files are not read
  kong       declarative configuration, or a KongPlugin, with the plugin rate-limiting

The configuration is printed to standard output, and is always valid. What has no equivalent is
listed on standard error, with its line and what to do instead. Read both before you use the file.

Examples:
  tollgate import ratelimit.yaml --output tollgate.yaml
  tollgate import --from nginx /etc/nginx/nginx.conf > tollgate.yaml
  tollgate import --json kong.yml | jq .gaps

Exit codes:
  0  success, even if something has no equivalent
  2  invalid arguments or file, no limit in it, or the output file exists";

pub(crate) const COMPLETIONS: &str = "\
Examples:
  source <(tollgate completions bash)
  tollgate completions zsh > \"${fpath[1]}/_tollgate\"
  tollgate completions fish > ~/.config/fish/completions/tollgate.fish

Exit codes:
  0  success
  2  unknown shell";

pub(crate) const SCHEMA: &str = "\
Example:
  tollgate schema > tollgate.schema.json

With this first line in a configuration file, editors with YAML support validate it as you type:
  # yaml-language-server: $schema=./tollgate.schema.json

Exit codes:
  0  success";
