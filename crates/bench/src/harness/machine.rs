//! The machine on which a benchmark ran, without which its numbers mean nothing.

use std::thread::available_parallelism;

use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) cpu: String,
}

impl Machine {
    pub(crate) fn this() -> Self {
        let cores = available_parallelism().map_or(1, Into::into);
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Self {
            cores,
            cpu: model_name(&cpuinfo).unwrap_or("unknown").to_owned(),
        }
    }
}

fn model_name(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim())
}

#[cfg(test)]
mod tests {
    use super::model_name;

    #[test]
    fn the_model_is_read_from_cpuinfo() {
        let cpuinfo = "processor\t: 0\nmodel\t\t: 1\nmodel name\t: Example 9000\nstepping\t: 1\n";
        assert_eq!(model_name(cpuinfo), Some("Example 9000"));
        assert_eq!(model_name(""), None);
    }
}
