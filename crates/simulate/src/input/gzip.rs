//! Decompresses gzip files: one member, or several one after the other.
//!
//! flate2's `MultiGzDecoder` fails at bytes that follow the last member, such as the padding of a
//! tape or of an encrypted file. Here they are counted and ignored, as by `gzip`.

use std::cell::Cell;
use std::io::{self, BufRead, Chain, Cursor, Read};
use std::rc::Rc;

use flate2::bufread::GzDecoder;

/// The first bytes of a member: gzip, compressed with deflate, the only method there is.
const MEMBER_START: [u8; 3] = [0x1f, 0x8b, 0x08];

/// Reads the decompressed bytes of all members.
pub(super) struct GzipReader<R> {
    /// The current member, whose first bytes were read already. None at the end.
    member: Option<GzDecoder<Chain<Cursor<Vec<u8>>, R>>>,
    /// How many bytes follow the last member; 0 until its end.
    trailing_bytes: Rc<Cell<u64>>,
}

impl<R: BufRead> GzipReader<R> {
    pub(super) fn new(reader: R, trailing_bytes: Rc<Cell<u64>>) -> Self {
        let nothing = Cursor::new(Vec::new());
        Self {
            member: Some(GzDecoder::new(nothing.chain(reader))),
            trailing_bytes,
        }
    }

    /// Continues after the end of a member: with the next one, or with counting what is left.
    fn end_member(&mut self, member: GzDecoder<Chain<Cursor<Vec<u8>>, R>>) -> io::Result<()> {
        let (_, mut reader) = member.into_inner().into_inner();
        let mut start = Vec::new();
        let length = MEMBER_START.len() as u64;
        reader.by_ref().take(length).read_to_end(&mut start)?;

        if start == MEMBER_START {
            let reader = Cursor::new(start).chain(reader);
            self.member = Some(GzDecoder::new(reader));
        } else {
            let rest = io::copy(&mut reader, &mut io::sink())?;
            self.trailing_bytes.set(start.len() as u64 + rest);
        }
        Ok(())
    }
}

impl<R: BufRead> Read for GzipReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(into)?;
            if count > 0 || into.is_empty() {
                return Ok(count);
            }
            if let Some(member) = self.member.take() {
                self.end_member(member)?;
            }
        }
        Ok(0)
    }
}
