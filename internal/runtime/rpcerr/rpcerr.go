// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package rpcerr builds the errors that Leat's services answer with, and reads them back on the
// other side.
//
// An error on the wire is a Connect code for generic clients, a reason from the closed list in
// leat.errors.v1 for programs, a message for people, and, if waiting helps, a google.rpc.RetryInfo.
// The reason travels as a google.rpc.ErrorInfo with the domain [Domain].
//
// Only the edge of a service builds these errors: its core returns its own sentinels, which the
// edge maps once. In [Redact], an error that was not mapped becomes INTERNAL, with an error id in
// place of the text.
package rpcerr

import (
	"errors"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
)

// Domain is the google.rpc.ErrorInfo.domain of every reason of Leat's.
const Domain = "leat.dev"

// The metadata keys that [Field], [NotFound] and [Redact] fill.
const (
	MetadataField   = "field"
	MetadataKind    = "kind"
	MetadataName    = "name"
	MetadataErrorID = "error_id"
)

// Option adds details to an error that [New] builds.
type Option func(*options)

type options struct {
	metadata map[string]string
	retry    time.Duration
}

// With adds one metadata entry. Callers see it, so it holds no secret and no internal address.
func With(key, value string) Option {
	return func(o *options) { o.metadata[key] = value }
}

// RetryAfter adds that the same call may succeed after d. Zero or less adds nothing.
func RetryAfter(d time.Duration) Option {
	return func(o *options) { o.retry = d }
}

// New builds an error. The message is one sentence for people that advises. Callers see it
// unchanged.
func New(code connect.Code, reason errorsv1.Reason, message string, opts ...Option) *connect.Error {
	return explain(connect.NewError(code, errors.New(message)), reason, opts)
}

// explain adds the details to a new error.
func explain(err *connect.Error, reason errorsv1.Reason, opts []Option) *connect.Error {
	o := options{metadata: make(map[string]string)}
	for _, apply := range opts {
		apply(&o)
	}
	addDetail(err, &errdetails.ErrorInfo{Reason: reasonText(reason), Domain: Domain, Metadata: o.metadata})
	if o.retry > 0 {
		addDetail(err, &errdetails.RetryInfo{RetryDelay: durationpb.New(o.retry)})
	}
	return err
}

// addDetail drops a detail that cannot be encoded (a text that is not UTF-8): the code and the
// message still suffice.
func addDetail(err *connect.Error, message proto.Message) {
	if detail, encodeErr := connect.NewErrorDetail(message); encodeErr == nil {
		err.AddDetail(detail)
	}
}

// Field returns the error for a malformed field of the request. The path is the path in the proto
// message, such as "spec.url".
func Field(path, message string) *connect.Error {
	return New(connect.CodeInvalidArgument, errorsv1.Reason_REASON_FIELD_INVALID, path+": "+message,
		With(MetadataField, path))
}

// NotFound returns the error for a named object that does not exist. The kind is lower case, such
// as "cluster".
func NotFound(kind, name string) *connect.Error {
	return New(connect.CodeNotFound, errorsv1.Reason_REASON_NOT_FOUND, kind+" "+strconv.Quote(name)+" does not exist",
		With(MetadataKind, kind), With(MetadataName, name))
}
