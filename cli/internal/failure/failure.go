// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package failure turns errors into output for a user at a terminal: what went wrong, the reason's
// name for looking it up, what to do now, and an exit code.
package failure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"slices"
	"strings"

	"connectrpc.com/connect"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	"github.com/leatdev/leat/internal/contract/document"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
)

// Exit codes of leat.
const (
	ExitOK     = 0
	ExitFailed = 1 // the command was understood but failed
	ExitUsage  = 2 // the command line is wrong; nothing was done
	// ExitUnhealthy is leat status's: something in the fleet failed, or is not healthy.
	ExitUnhealthy = 3
)

// Failure is an error that is ready to be displayed.
type Failure struct {
	Message string // what happened; no trailing full stop
	Reason  string // name from the closed list of leat.errors.v1, or empty
	Advice  string // what to do; empty when the message has the advice
	Exit    int
}

// Error implements error.
func (f *Failure) Error() string { return f.Message }

// New returns a failure of the command itself.
func New(message, advice string) *Failure {
	return &Failure{Message: message, Advice: advice, Exit: ExitFailed}
}

// Usage returns the failure for a wrong command line.
func Usage(format string, args ...any) *Failure {
	return &Failure{Message: fmt.Sprintf(format, args...), Exit: ExitUsage}
}

// Silent returns a failure that is only an exit code, without a message.
func Silent(exit int) *Failure { return &Failure{Exit: exit} }

// From converts any error but nil to a Failure. server is the address that the command called, for
// messages. It may be empty.
func From(err error, server string) *Failure {
	if known, ok := errors.AsType[*Failure](err); ok {
		return known
	}
	if problems, ok := errors.AsType[document.Problems](err); ok {
		return New(problems.Error(), "Correct the documents; nothing was changed.")
	}
	if remote, ok := errors.AsType[*connect.Error](err); ok {
		return fromRemote(remote, server)
	}
	if errors.Is(err, context.Canceled) {
		return New("interrupted", "")
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return New("the time is up", "Try again, or allow more time with --timeout.")
	}
	return New(err.Error(), "")
}

func fromRemote(err *connect.Error, server string) *Failure {
	if !rpcerr.HasReason(err) {
		return fromTransport(err, server)
	}
	reason := rpcerr.ReasonOf(err)
	f := New(rpcerr.Message(err), Advice(reason))
	f.Reason = document.EnumName(reason)
	if kind := rpcerr.Metadata(err)[rpcerr.MetadataKind]; reason == errorsv1.Reason_REASON_NOT_FOUND && kind != "" {
		f.Advice = whereToLook(kind)
	}
	if id := rpcerr.Metadata(err)[rpcerr.MetadataErrorID]; id != "" {
		f.Message += " (error id " + id + ")"
	}
	return f
}

// whereToLook returns how to list the objects of a kind.
func whereToLook(kind string) string {
	kind = strings.ToLower(kind)
	for _, plural := range []string{kind + "s", strings.TrimSuffix(kind, "y") + "ies"} {
		if slices.Contains(document.Kinds(), plural) {
			return "List the existing ones with leat get " + plural + "."
		}
	}
	return "Check the name."
}

// FromTunnel adds to an error of the network that it was the hub's tunnel, at that address, that
// did not answer. It returns any other error unchanged. The code of the result is the code of err.
func FromTunnel(err error, address string) error {
	remote, ok := errors.AsType[*connect.Error](err)
	if !ok || rpcerr.HasReason(remote) || remote.Code() != connect.CodeUnavailable || errors.Is(err, context.Canceled) {
		return err
	}
	return errors.Join(New("cannot reach the tunnel at "+address+": "+plainCause(remote),
		"The hub says that its tunnel is there. Is it running, and is this address reachable from here?"), err)
}

// fromTransport returns the failure of a call that no Leat server answered.
func fromTransport(err *connect.Error, server string) *Failure {
	switch {
	case errors.Is(err, context.Canceled):
		return New("interrupted", "")
	case err.Code() == connect.CodeDeadlineExceeded:
		return New(server+" did not answer in time", "Try again, or allow more time with --timeout.")
	case err.Code() == connect.CodeUnavailable:
		return New("cannot reach "+server+": "+plainCause(err), "Is the hub running, and is the address right? See leat context, --server and LEAT_SERVER.")
	case err.Code() == connect.CodeUnauthenticated:
		return New(server+" refused the token", Advice(errorsv1.Reason_REASON_TOKEN_INVALID))
	default:
		return New(fmt.Sprintf("%s gave an answer that is not Leat's (%s)", server, err.Message()),
			"Is this the address of a Leat distributor, and does nothing in between (a proxy, a login page) answer for it?")
	}
}

// plainCause returns the innermost part of a network error: "connection refused", not the chain of
// wrapped calls.
func plainCause(err error) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return "no such host " + dns.Name
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		_, cause, found := strings.Cut(op.Err.Error(), ": ") // "connect: connection refused"
		if !found {
			cause = op.Err.Error()
		}
		return cause
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err.Error()
	}
	return rpcerr.Message(err)
}

// Write prints a failure, unless it is silent.
func (f *Failure) Write(w io.Writer) {
	if f.Message == "" {
		return
	}
	text := "Error: " + f.Message
	if strings.Contains(f.Message, "\n") {
		text = "Error:\n  " + strings.ReplaceAll(f.Message, "\n", "\n  ")
	}
	if f.Reason != "" {
		text += " (" + f.Reason + ")"
	}
	if f.Advice != "" {
		text += "\n" + f.Advice
	}
	_, _ = fmt.Fprintln(w, text) // there is nowhere else to report an error
}

// File returns the failure to read or write a user's file.
func File(err error, advice string) *Failure {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return New(fmt.Sprintf("%s: %v", path.Path, path.Err), advice)
	}
	return New(err.Error(), advice)
}
