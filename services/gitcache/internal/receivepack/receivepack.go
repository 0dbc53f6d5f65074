// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package receivepack pushes to upstreams: it speaks Git's receive-pack protocol, over the channels
// of package uploadpack.
//
// Its promises:
//
//   - Nothing is sent before the guard has agreed, nor once it no longer does: package uploadpack asks
//     it before every write.
//   - A push moves one branch, from the commit that the upstream itself has listed to another one,
//     or creates it. If the branch has moved meanwhile, the upstream refuses the push, and nothing
//     is overwritten. The error then has the reason PUSH_OUTDATED.
//   - A push has succeeded only if the upstream reports that for this branch.
//   - Every answer is bounded, whatever an upstream sends: refs, reports and the words of hooks.
//   - A failure comes out as a *mirror.UpstreamError with a reason and a sentence of advice. Words
//     of the upstream are quoted without anything that looks like a credential.
//
// A push is a conversation of two messages: the upstream lists its refs, and the client sends a
// command with a pack. Credentials, proxies and limits are package uploadpack's. The package makes
// no object, and has no state.
package receivepack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
	"github.com/leatdev/leat/services/gitcache/internal/uploadpack"
)

// Upstreams reach upstreams. They may be used concurrently.
type Upstreams interface {
	// DialReceiver opens a conversation. Nothing is sent before the guard has agreed.
	DialReceiver(ctx context.Context, p mirror.FetchParams) (*uploadpack.Receiver, error)
	// Explain returns a failure as a *mirror.UpstreamError, or a *mirror.QuietError.
	Explain(err error, def mirror.Definition) error
}

// Update moves one branch.
type Update struct {
	// New is the commit that the branch leads to after the push.
	New string
	// Pack holds the objects that the upstream may lack.
	Pack []byte
}

// agent is the name of this client.
const agent = "agent=git/2.0-(leat)"

// zero is the id of no object, by the number of its digits.
func zero(digits int) string { return strings.Repeat("0", digits) }

// Push lists the refs of the upstream, and moves a branch, named in full, to where plan has it.
// plan gets the commits that the named refs lead to; a ref without one does not exist. Where plan
// returns nil, nothing is pushed. Its error is returned as it is.
//
// Other errors are *mirror.UpstreamError, *mirror.QuietError, the guard's and the context's.
func Push(
	ctx context.Context, u Upstreams, p mirror.FetchParams, branch string, refs []string,
	plan func(refs map[string]string) (*Update, error),
) error {
	err := push(ctx, u, p, branch, append(slices.Clone(refs), branch), plan)
	if rejected, ok := errors.AsType[*rejectedError](err); ok && hasMoved(ctx, u, p, branch, rejected.old) {
		return Outdated(branch, err)
	}
	if planned, ok := errors.AsType[*planError](err); ok {
		return planned.err
	}
	switch {
	case err == nil:
		return nil
	case p.Guard() != nil:
		return p.Guard()
	case ctx.Err() != nil:
		return fmt.Errorf("push: %w", context.Cause(ctx))
	}
	return explain(u.Explain, err, p.Definition)
}

// planError is an error of the caller's own plan.
type planError struct{ err error }

func (e *planError) Error() string { return e.err.Error() }

func push(
	ctx context.Context, u Upstreams, p mirror.FetchParams, branch string, refs []string,
	plan func(refs map[string]string) (*Update, error),
) error {
	r, err := u.DialReceiver(ctx, p)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // what counts is the report
	listed, err := list(ctx, r, refs)
	if err != nil {
		return r.Blame(err)
	}
	update, err := plan(listed.refs)
	if err != nil {
		return &planError{err}
	}
	if update == nil {
		return nil
	}
	if err := listed.check(update); err != nil {
		return err
	}
	command := command{ref: branch, old: listed.refs[branch], new: update.New}
	if err := command.send(ctx, r, listed, update.Pack); err != nil {
		if _, isRejected := errors.AsType[*rejectedError](err); isRejected {
			return err
		}
		return r.Blame(err)
	}
	return nil
}

// hasMoved reports whether a branch leads elsewhere than it did: then that is why it was not moved.
func hasMoved(ctx context.Context, u Upstreams, p mirror.FetchParams, branch, old string) bool {
	r, err := u.DialReceiver(ctx, p)
	if err != nil {
		return false
	}
	defer func() { _ = r.Close() }()
	listed, err := list(ctx, r, []string{branch})
	return err == nil && listed.refs[branch] != old
}

// advertisement is what the upstream lists.
type advertisement struct {
	refs         map[string]string // the ones that were asked for
	capabilities []string
}

// list reads the upstream's refs.
func list(ctx context.Context, r *uploadpack.Receiver, refs []string) (*advertisement, error) {
	lines, err := r.Open(ctx)
	if err != nil {
		return nil, err
	}
	a, err := readAdvertisement(lines, refs)
	if err != nil {
		return nil, errors.Join(err, lines.Close())
	}
	lines.Finish()
	return a, nil
}

func readAdvertisement(lines *uploadpack.Lines, refs []string) (*advertisement, error) {
	a := &advertisement{refs: map[string]string{}}
	for isFirst := true; ; isFirst = false {
		line, isEnd, err := lines.Next()
		if err != nil {
			return nil, fmt.Errorf("read advertised refs: %w", err)
		}
		if isEnd {
			return a, nil
		}
		if isFirst {
			var capabilities string
			line, capabilities, _ = strings.Cut(line, "\x00")
			a.capabilities = strings.Fields(capabilities)
		}
		id, name, found := strings.Cut(line, " ")
		switch {
		case id == "shallow":
		case !found || !pack.IsName(id):
			return nil, fmt.Errorf("%w: a line that is not a ref", uploadpack.ErrBroken)
		case slices.Contains(refs, name):
			a.refs[name] = id
		}
	}
}

func (a *advertisement) has(capability string) bool {
	return slices.Contains(a.capabilities, capability)
}

// check refuses an upstream that could not report what became of the push, or names objects
// otherwise.
func (a *advertisement) check(update *Update) error {
	format := "sha1"
	for _, word := range a.capabilities {
		if named, ok := strings.CutPrefix(word, "object-format="); ok {
			format = named
		}
	}
	switch {
	case !a.has("report-status"):
		return &mirror.UpstreamError{
			Reason: reason.UpstreamProtocol, Message: "The upstream does not report whether a push succeeds (report-status), so the hub pushes nothing there.",
		}
	case format != formatOf(update.New):
		return &mirror.UpstreamError{
			Reason: reason.UpstreamProtocol, Message: "The upstream names objects by another hash than the repository's mirror; wait for the next fetch.",
		}
	}
	return nil
}

// formatOf returns the name of the hash that an id comes from.
func formatOf(id string) string {
	if len(id) == 64 {
		return "sha256"
	}
	return "sha1"
}

// command moves a branch.
type command struct{ ref, old, new string }

// send sends the command and the pack, and reads the report.
func (c command) send(ctx context.Context, r *uploadpack.Receiver, listed *advertisement, objects []byte) error {
	words := []string{"report-status"}
	hasSideband := listed.has("side-band-64k")
	if hasSideband {
		words = append(words, "side-band-64k")
	}
	if format := formatOf(c.new); format != "sha1" {
		words = append(words, "object-format="+format)
	}
	old := c.old
	if old == "" {
		old = zero(len(c.new))
	}
	var request strings.Builder
	uploadpack.WriteLine(&request, old+" "+c.new+" "+c.ref+"\x00 "+strings.Join(append(words, agent), " "))
	uploadpack.WriteFlush(&request)
	request.Write(objects)
	report, err := r.Send(ctx, request.String(), hasSideband)
	if err != nil {
		return fmt.Errorf("send push: %w", err)
	}
	defer func() { _ = report.Close() }()
	return c.read(report)
}

// read reads "unpack ok" and "ok <ref>". Instead of "ok", the upstream reports why it refuses.
func (c command) read(report *uploadpack.Lines) error {
	unpacked, isEnd, err := report.Next()
	switch {
	case err != nil:
		return fmt.Errorf("read report: %w", err)
	case isEnd:
		return fmt.Errorf("%w: an empty report", uploadpack.ErrBroken)
	}
	status, isUnpack := strings.CutPrefix(unpacked, "unpack ")
	if !isUnpack {
		return fmt.Errorf("%w: a report that does not begin with unpack", uploadpack.ErrBroken)
	}
	why := ""
	if status != "ok" {
		why = status
	}
	for {
		line, isEnd, err := report.Next()
		switch {
		case err != nil:
			return fmt.Errorf("read report: %w", err)
		case isEnd && why != "":
			return &rejectedError{old: c.old, said: strings.TrimSpace(report.Printed() + " " + why)}
		case isEnd:
			return fmt.Errorf("%w: a report without the branch", uploadpack.ErrBroken)
		}
		if line == "ok "+c.ref && why == "" {
			finish(report)
			return nil
		}
		if refused, isOurs := strings.CutPrefix(line, "ng "+c.ref+" "); isOurs && why == "" {
			why = refused
		}
	}
}

// finish reads a report to its end, where hooks may still print. How it ends does not matter: the
// branch has moved.
func finish(report *uploadpack.Lines) {
	for hasEnded := false; !hasEnded; {
		_, isEnd, err := report.Next()
		hasEnded = isEnd || err != nil
	}
}
