//! Replays a few log lines through a limit and prints what it would have denied.
//!
//! Run it with `cargo run -p tollgate-simulate --example replay_log`.

use std::error::Error;
use std::io::Cursor;

use tollgate_rules::Config;
use tollgate_simulate::{
    AccessLogFormat, LogInput, ReportLabels, Simulation, SimulationPlan, SimulationReport,
};

const CONFIG: &str =
    "limits: [{name: login, key: [client_ip], algorithm: sliding_log, limit: 2, window: 1m}]";

const LOG: &str = r#"203.0.113.7 - - [10/Oct/2026:13:55:36 +0000] "POST /login HTTP/1.1" 401 5
203.0.113.7 - - [10/Oct/2026:13:55:37 +0000] "POST /login HTTP/1.1" 401 5
203.0.113.7 - - [10/Oct/2026:13:55:39 +0000] "POST /login HTTP/1.1" 401 5
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let report = simulate()?;
    for limit in &report.configuration.limits {
        let (denied, all) = (limit.denied, limit.requests);
        println!("{}: {denied} of {all} denied", limit.name);
        for key in &limit.top_keys {
            println!("  {}: {}, first at {}", key.key, key.denied, key.first);
        }
    }
    Ok(())
}

fn simulate() -> Result<SimulationReport, Box<dyn Error>> {
    let config = Config::parse(CONFIG, "example.yaml", &|_| None).map_err(|e| e.to_string())?;
    let mut simulation = Simulation::new(&SimulationPlan {
        config: &config,
        against: None,
        format: AccessLogFormat::Auto,
        fields: &[],
        logged_at: None,
        suggest: None,
    })?;
    let mut input = LogInput::new(Cursor::new(LOG), None)?;
    simulation.replay(&mut input, &mut |_progress| {})?;

    let labels = ReportLabels {
        config: "example.yaml".to_owned(),
        against: String::new(),
        logs: vec!["access.log".to_owned()],
        top: 3,
        format_quota: |quota| quota.limit().to_string(),
    };
    Ok(simulation.report(&labels, None))
}

#[test]
fn the_third_login_is_denied() -> Result<(), Box<dyn Error>> {
    assert_eq!(simulate()?.configuration.limits[0].denied, 1);
    Ok(())
}
