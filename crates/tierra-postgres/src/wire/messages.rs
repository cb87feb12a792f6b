//! The server's messages, written to the buffer of what is to be sent.

use bytes::{BufMut, BytesMut};
use pgwire::messages::PgWireBackendMessage as Backend;
use pgwire::messages::copy::{CopyInResponse, CopyOutResponse};
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    BindComplete, CloseComplete, ParseComplete, PortalSuspended,
};
use pgwire::messages::response::{
    EmptyQueryResponse, ErrorResponse, NoticeResponse, ReadyForQuery, TransactionStatus,
};
use pgwire::messages::startup::{
    Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey,
};
use tierra_sql::TransactionState;

use crate::error::Fault;
use crate::values::{Field, Format};

fn put(output: &mut BytesMut, message: Backend) {
    let before = output.len();
    if let Err(error) = message.encode(output) {
        // A name or text beyond the protocol's lengths.
        output.truncate(before);
        tracing::error!(%error, "a message cannot be sent");
    }
}

/// A text as messages have it: it ends with a zero.
fn put_text(body: &mut BytesMut, text: &str) {
    body.put_slice(text.as_bytes());
    body.put_u8(0);
}

/// The format of a COPY, the number of its columns, and the format of each.
fn copy_formats(is_binary: bool, columns: usize) -> (i8, i16, Vec<i16>) {
    // The caller has checked that there are not more.
    let count = i16::try_from(columns).unwrap_or(i16::MAX);
    (is_binary.into(), count, vec![is_binary.into(); columns])
}

/// Adds messages to what is to be sent.
pub(crate) trait Put {
    fn parse_complete(&mut self);
    fn bind_complete(&mut self);
    fn close_complete(&mut self);
    fn no_data(&mut self);
    fn empty_query(&mut self);
    fn portal_suspended(&mut self);
    fn complete(&mut self, tag: &str);
    fn ready(&mut self, state: TransactionState);
    fn fault(&mut self, fault: &Fault);
    fn notice(&mut self, fault: &Fault);
    fn setting(&mut self, name: &str, value: &str);
    fn authentication(&mut self, step: Authentication);
    fn key(&mut self, process: i32, secret: i32);
    fn protocol(&mut self, version: i32, unknown: Vec<String>);
    fn parameters(&mut self, types: Vec<u32>);
    fn rows(&mut self, fields: &[Field], format: impl Fn(usize) -> Format);
    fn copy_in(&mut self, is_binary: bool, columns: usize);
    fn copy_out(&mut self, is_binary: bool, columns: usize);
    fn copy_done(&mut self);
    /// A message of this type, whose body `body` writes.
    fn framed(&mut self, kind: u8, body: impl FnOnce(&mut BytesMut));
}

impl Put for BytesMut {
    fn parse_complete(&mut self) {
        put(self, Backend::ParseComplete(ParseComplete::new()));
    }

    fn bind_complete(&mut self) {
        put(self, Backend::BindComplete(BindComplete::new()));
    }

    fn close_complete(&mut self) {
        put(self, Backend::CloseComplete(CloseComplete::new()));
    }

    fn no_data(&mut self) {
        put(self, Backend::NoData(NoData::new()));
    }

    fn empty_query(&mut self) {
        put(self, Backend::EmptyQueryResponse(EmptyQueryResponse::new()));
    }

    fn portal_suspended(&mut self) {
        put(self, Backend::PortalSuspended(PortalSuspended::new()));
    }

    fn complete(&mut self, tag: &str) {
        self.framed(b'C', |body| put_text(body, tag));
    }

    fn ready(&mut self, state: TransactionState) {
        let status = match state {
            TransactionState::None => TransactionStatus::Idle,
            TransactionState::Open => TransactionStatus::Transaction,
            TransactionState::Failed => TransactionStatus::Error,
        };
        put(self, Backend::ReadyForQuery(ReadyForQuery::new(status)));
    }

    fn fault(&mut self, fault: &Fault) {
        put(
            self,
            Backend::ErrorResponse(ErrorResponse::new(fault.fields())),
        );
    }

    fn notice(&mut self, fault: &Fault) {
        put(
            self,
            Backend::NoticeResponse(NoticeResponse::new(fault.fields())),
        );
    }

    fn setting(&mut self, name: &str, value: &str) {
        let status = ParameterStatus::new(name.to_owned(), value.to_owned());
        put(self, Backend::ParameterStatus(status));
    }

    fn authentication(&mut self, step: Authentication) {
        put(self, Backend::Authentication(step));
    }

    fn key(&mut self, process: i32, secret: i32) {
        let key = BackendKeyData::new(process, SecretKey::I32(secret));
        put(self, Backend::BackendKeyData(key));
    }

    fn protocol(&mut self, version: i32, unknown: Vec<String>) {
        let negotiated = NegotiateProtocolVersion::new(version, unknown);
        put(self, Backend::NegotiateProtocolVersion(negotiated));
    }

    fn parameters(&mut self, types: Vec<u32>) {
        put(
            self,
            Backend::ParameterDescription(ParameterDescription::new(types)),
        );
    }

    fn rows(&mut self, fields: &[Field], format: impl Fn(usize) -> Format) {
        self.framed(b'T', |body| {
            // The caller has checked that there are not more.
            body.put_i16(fields.len() as i16);
            for (place, field) in fields.iter().enumerate() {
                put_text(body, &field.name);
                // The table and its column are not told.
                body.put_i32(0);
                body.put_i16(0);
                body.put_u32(field.oid);
                body.put_i16(field.size);
                body.put_i32(field.modifier);
                body.put_i16(format(place).code());
            }
        });
    }

    fn copy_in(&mut self, is_binary: bool, columns: usize) {
        let (format, count, formats) = copy_formats(is_binary, columns);
        let response = CopyInResponse::new(format, count, formats);
        put(self, Backend::CopyInResponse(response));
    }

    fn copy_out(&mut self, is_binary: bool, columns: usize) {
        let (format, count, formats) = copy_formats(is_binary, columns);
        let response = CopyOutResponse::new(format, count, formats);
        put(self, Backend::CopyOutResponse(response));
    }

    fn copy_done(&mut self) {
        self.framed(b'c', |_| {});
    }

    fn framed(&mut self, kind: u8, body: impl FnOnce(&mut BytesMut)) {
        self.put_u8(kind);
        let start = self.len();
        self.put_u32(0);
        body(self);
        let len = (self.len() - start) as u32;
        self[start..start + 4].copy_from_slice(&len.to_be_bytes());
    }
}
