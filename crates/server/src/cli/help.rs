//! What stands below the options in `--help`: an example that works, and how the command ends.

pub(super) const TOLLGATE: &str = "\
Start with:
  tollgate serve                                   the service, with a limit that is built in
  tollgate check -a client_ip=203.0.113.7          a decision of it
  tollgate explain -a client_ip=203.0.113.7        why it decides so
  tollgate validate tollgate.yaml                  is a configuration right?
  tollgate load -a client_ip={ip}                  does it hold what it promises?
  tollgate simulate -c tollgate.yaml access.log    what would it have refused?

Exit codes:
  0  done; of check: allowed
  1  check: denied; load: a limit was exceeded
  2  the arguments, the configuration or the request are wrong
  3  no answer from the service

`tollgate COMMAND --help` says more about each.";

pub(super) const SERVE: &str = "\
Examples:
  tollgate serve
  tollgate serve --config tollgate.yaml --http 0.0.0.0:8080

Variables:
  TOLLGATE_LOG          what is logged, as in `warn` or `info,tollgate_server=debug`; info if nothing is said
  TOLLGATE_ADMIN_TOKEN  the token that the admin port wants, of at least 16 characters; needed when that port
                        listens on any but a loopback address

The configuration may name further variables, as in ${REDIS_PASSWORD}. It is read again when its file changes and
on SIGHUP; one that is wrong changes nothing. SIGTERM and SIGINT let requests under way finish.

Exit codes:
  0  stopped by a signal
  2  cannot start: the configuration is wrong, or a port is taken";

pub(super) const VALIDATE: &str = "\
Faults go to standard error, one a line, as FILE:LINE:COLUMN: FIELD: what was found; what would be right.
Variables such as ${REDIS_PASSWORD} must be set. No server is asked.

Examples:
  tollgate validate tollgate.yaml
  REDIS_PASSWORD=x tollgate validate --json staging.yaml production.yaml
  helm template . | tollgate validate -

Exit codes:
  0  every file is right
  2  something is wrong";

pub(super) const EXPLAIN: &str = "\
Nothing is counted and no service is asked: the configuration says it all. Attributes that are hashed are shown
as their hash.

Examples:
  tollgate explain --config tollgate.yaml -a client_ip=203.0.113.7 -a method=POST -a path=/auth/login
  tollgate explain --config tollgate.yaml --limit plan -a header:x-api-key=k1 -a path=/v1/users -a tier=pro

Exit codes:
  0  explained, whichever limits apply
  2  the arguments or the configuration are wrong";

pub(super) const CHECK: &str = "\
The exit code follows the decision. A limit that refuses because the store is away and its policy is deny (status
503) has decided: that is a denial. Status 503 without a decision is no answer.

Examples:
  tollgate check -a client_ip=203.0.113.7
  tollgate check --url 10.0.0.5:8080 --limit login -a client_ip=203.0.113.7 -a email=ann@example.com
  tollgate check --peek --json -a client_ip=203.0.113.7 | jq .limits

Exit codes:
  0  allowed
  1  denied
  2  the arguments or the request are wrong; the service says what
  3  no answer: nobody there, too late, or no decision";

pub(super) const KEYS: &str = "\
Variables:
  TOLLGATE_ADMIN_TOKEN  the token that the admin port wants, if it wants one

Examples:
  tollgate keys get --limit login -a client_ip=203.0.113.7 -a email=ann@example.com
  tollgate keys reset --limit login -a client_ip=203.0.113.7 -a email=ann@example.com

Exit codes:
  0  done
  2  the arguments are wrong, or the admin port refuses
  3  no answer from the admin port";

pub(crate) const KEYS_GET: &str = "\
Example:
  tollgate keys get --limit login -a client_ip=203.0.113.7 -a email=ann@example.com

Exit codes:
  0  shown
  2  the arguments are wrong, or the admin port refuses (is TOLLGATE_ADMIN_TOKEN set?)
  3  no answer from the admin port";

pub(crate) const KEYS_RESET: &str = "\
Example:
  tollgate keys reset --limit login -a client_ip=203.0.113.7 -a email=ann@example.com

Exit codes:
  0  reset
  2  the arguments are wrong, or the admin port refuses (is TOLLGATE_ADMIN_TOKEN set?)
  3  no answer from the admin port";

pub(super) const LOAD: &str = "\
Requests leave when they are due, whatever became of those before them, and latencies count from that moment. Values of
attributes may have places to fill in: {key} is the client's name, {ip} an address of its own.

A limit is called exceeded only when that is certain: a request was let through at some moment between its sending and
its answer, and an interval counts only those that lie in it with both. With --config limits are judged by what they
are; without it by what answers say of them, which is little, so that more is overlooked.

Keys:
  one            always the same client
  uniform:N      any of N
  zipf:N[:S]     the k-th of N in proportion to 1/k^S; S is 1 if nothing is said
  file:PATH      any line of a file

Shapes:
  steady                as --arrivals says
  credential-stuffing   the accounts are {key}, each asked for from any of --addresses, which are {ip}
  edge-burst            everything in bursts around the edges of windows of --window

Examples:
  tollgate load --rate 5000 --duration 30s
  tollgate load --url 10.0.0.5:8080 --url 10.0.0.6:8080 --config tollgate.yaml --keys zipf:10000:1.1 -a tenant={key}
  tollgate load --shape credential-stuffing --limit login -a client_ip={ip} -a email={key}
  tollgate load --get /search?q=x -a header:x-api-key={key} --keys uniform:50 --allow 120/1m

Exit codes:
  0  every limit that could be judged held
  1  a limit was exceeded
  2  the arguments, the configuration or the request are wrong
  3  no answer: nobody there, or not one decision";
pub(super) const SIMULATE: &str = "\
Each request is put to the limits at its time, by the service's own selection and arithmetic; nothing is asked of
any server. Known are the common and combined formats, with a virtual host in front or not, and JSON as nginx, Caddy
and Traefik write it; gzip is seen by itself. A line says client_ip, method, path, host if it has one, query:<name>,
header:user-agent, header:referer, user, status and bytes; JSON also any other field by its name.

Examples:
  tollgate simulate --config tollgate.yaml /var/log/nginx/access.log
  tollgate simulate --config tollgate.yaml --html report.html access.log.2.gz access.log.1 access.log
  tollgate simulate --config old.yaml --against new.yaml --json access.log | jq .comparison
  zcat access.log.*.gz | tollgate simulate --config tollgate.yaml -
  tollgate simulate --suggest --field time=ts --field tenant=labels.tenant caddy.json

Exit codes:
  0  replayed, whatever was refused
  2  the arguments or a configuration are wrong, or no line of the log can be read";

pub(super) const COMPLETIONS: &str = "\
Examples:
  source <(tollgate completions bash)
  tollgate completions zsh > \"${fpath[1]}/_tollgate\"
  tollgate completions fish > ~/.config/fish/completions/tollgate.fish

Exit codes:
  0  printed
  2  no such shell";

pub(super) const SCHEMA: &str = "\
Example:
  tollgate schema > tollgate.schema.json

With this first line of a configuration, editors that know YAML check it while it is written:
  # yaml-language-server: $schema=./tollgate.schema.json

Exit codes:
  0  printed";
