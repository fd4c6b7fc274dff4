//! The configuration file. A file system that does not respond blocks one thread, never the
//! service.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tollgate_rules::Config;
use tollgate_rules::config::{ConfigError, read_file};

/// How long reading the file may take.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The configuration file of the service.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    path: PathBuf,
    /// The text from which the service started, until it is taken.
    first_text: Vec<u8>,
    /// One permit, held while a thread reads the file, so that at most one thread hangs.
    reading: Arc<Semaphore>,
}

impl ConfigFile {
    /// Reads the file and the configuration in it. Waits for the file system.
    pub(crate) fn open(path: &Path) -> Result<(Config, Self), ConfigError> {
        let text = read_file(path)?;
        let config = parse(&text, path)?;

        let file = Self {
            path: path.to_owned(),
            first_text: text,
            reading: Arc::new(Semaphore::new(1)),
        };
        Ok((config, file))
    }

    pub(crate) const fn path(&self) -> &PathBuf {
        &self.path
    }

    pub(super) fn take_first_text(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.first_text)
    }

    /// Reads the text. Fails if the file system does not respond in time; until it does, later
    /// reads fail without waiting.
    pub(super) async fn read(&self) -> Result<Vec<u8>, ConfigError> {
        self.read_by(read_file, READ_TIMEOUT).await
    }

    async fn read_by(
        &self,
        read: impl FnOnce(PathBuf) -> Result<Vec<u8>, ConfigError> + Send + 'static,
        patience: Duration,
    ) -> Result<Vec<u8>, ConfigError> {
        let Ok(permit) = self.reading.clone().try_acquire_owned() else {
            return Err(self.no_response());
        };

        let path = self.path.clone();
        let read = spawn_blocking(move || {
            let _permit = permit;
            read(path)
        });
        match timeout(patience, read).await {
            Ok(read) => read.expect("reading a file does not panic"),
            Err(_) => Err(self.no_response()),
        }
    }

    /// Parses and validates a text, in a thread for work that takes long.
    pub(super) async fn parse(&self, text: Vec<u8>) -> Result<Config, ConfigError> {
        let path = self.path.clone();
        spawn_blocking(move || parse(&text, &path))
            .await
            .expect("reading a configuration does not panic")
    }

    fn no_response(&self) -> ConfigError {
        let message = "cannot read the file: the file system does not respond";
        ConfigError::for_file(&self.path.display().to_string(), message)
    }
}

/// The configuration in a text, with variables from the environment.
fn parse(text: &[u8], path: &Path) -> Result<Config, ConfigError> {
    let name = path.display().to_string();
    Config::parse_bytes(text, &name, &|name| std::env::var(name).ok())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn a_read_that_hangs_blocks_one_thread_and_no_caller() {
        let file = ConfigFile {
            path: "tollgate.yaml".into(),
            first_text: Vec::new(),
            reading: Arc::new(Semaphore::new(1)),
        };
        let (end, ended) = channel::<()>();
        let hang = move |_| {
            let _ended = ended.recv();
            Ok(Vec::new())
        };

        let error = file
            .read_by(hang, Duration::ZERO)
            .await
            .expect_err("no response");
        assert_eq!(
            error.to_string(),
            "tollgate.yaml: cannot read the file: the file system does not respond"
        );
        // No second thread waits for the file system: this would be the text of the file.
        assert!(file.read_by(|_| Ok(vec![1]), READ_TIMEOUT).await.is_err());

        drop(end);
        drop(file.reading.acquire().await);
        let read = file.read_by(|_| Ok(vec![1]), READ_TIMEOUT).await;
        assert_eq!(read.ok(), Some(vec![1]));
    }
}
