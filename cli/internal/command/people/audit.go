// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package people

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/show"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/internal/contract/document"
)

const (
	// followEvery is how often leat audit --follow asks for new records.
	followEvery = 2 * time.Second
	// auditPage is how many records one call asks for.
	auditPage = 500
)

// Audit is `leat audit`.
func Audit(s *session.Session) *cobra.Command {
	a := audit{session: s, format: show.Table, now: time.Now}
	cmd := &cobra.Command{
		Use:   "audit [KIND [NAME]]",
		Short: "Show who changed what in the hub, when and why",
		Long: `Show the records of changes in the hub, the newest first: edits of documents, syncs, previews, tokens, revoked agents, and calls that
were refused. Only administrators may see them. The hub keeps them for 400 days, unless its operator set another time.

KIND is a kind of document, or token, jointoken, bootstraptoken, accesstoken or session. Times are a span before now, such as 30d, 12h or
90m, a date, or a time in the form of RFC 3339. -o json and -o yaml show every field that changed with its values before and after; secrets
show that they changed, never how.`,
		Example: `  leat audit service shop --since 30d              who changed this service in the last month, and why
  leat audit --token 0123456789abcdef              what was done with this API token
  leat audit --by ada --refused --since 2026-11-01
  leat audit --claim repository=acme/shop --claim run_number=42
  leat audit accessbinding -o json
  leat audit --follow`,
		Args: a.args,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.Fail(a.run(cmd.Context())) },
	}
	flags := cmd.Flags()
	flags.StringVar(&a.since, "since", "", "records from this time on")
	flags.StringVar(&a.until, "until", "", "records before this time")
	flags.StringVar(&a.by, "by", "", "the person who made the call")
	flags.StringVar(&a.token, "token", "", "the token of the call, or the API token that it was issued for")
	flags.StringArrayVar(&a.request.Claims, "claim", nil, "a claim of the workload's token, such as repository=acme/shop; may be repeated")
	flags.StringVar(&a.request.Cluster, "cluster", "", "the cluster, and the services on it")
	flags.StringVar(&a.request.Verb, "verb", "", "what was done: create, update, delete, sync, preview, revoke, enrol")
	flags.StringVar(&a.request.Rpc, "rpc", "", "the call, such as Apply")
	flags.StringVar(&a.request.Outcome, "outcome", "", "ok, or the reason of a refusal, such as access_denied")
	flags.BoolVar(&a.refused, "refused", false, "refused calls only")
	flags.StringVar(&a.request.RequestId, "request", "", "the id of the call")
	flags.IntVar(&a.limit, "limit", 100, "how many records to show; 0: all")
	flags.BoolVarP(&a.follow, "follow", "f", false, "show new records as they are made, the newest last")
	flags.VarP(&a.format, "output", "o", "how to print it")
	return cmd
}

type audit struct {
	session          *session.Session
	format           show.Format
	since, until, by string
	token            string
	refused, follow  bool
	limit            int
	request          fleetv1.ListAuditRecordsRequest
	now              func() time.Time
}

// args completes the request from the command line.
func (a *audit) args(_ *cobra.Command, args []string) (err error) {
	if len(args) == 1 {
		args = strings.SplitN(args[0], "/", 2)
	}
	if len(args) > 2 {
		return fmt.Errorf("want KIND and NAME at most, got %d arguments", len(args))
	}
	if len(args) > 0 {
		if a.request.Kind, err = recordKind(args[0]); err != nil {
			return err
		}
	}
	if len(args) == 2 {
		a.request.Name = args[1]
	}
	if a.refused && a.request.GetOutcome() != "" {
		return failure.Usage("--refused excludes --outcome")
	}
	if a.limit < 0 {
		return failure.Usage("--limit is negative")
	}
	if a.follow && a.until != "" {
		return failure.Usage("--follow excludes --until")
	}
	if a.refused {
		a.request.Outcome = "REFUSED"
	}
	if a.request.Since, err = parseTime("--since", a.since, a.now()); err != nil {
		return err
	}
	if a.request.Until, err = parseTime("--until", a.until, a.now()); err != nil {
		return err
	}
	a.request.Subject, a.request.Token = subject(a.by), credential(a.token)
	return nil
}

// recordKind returns the kind of records that a word names.
func recordKind(word string) (string, error) {
	if kind, ok := document.Kind(word); ok {
		return kind, nil
	}
	for _, kind := range []string{"Token", "JoinToken", "BootstrapToken", "AccessToken", "Session"} {
		if name := strings.ToLower(kind); strings.EqualFold(word, name) || strings.EqualFold(word, name+"s") {
			return kind, nil
		}
	}
	kinds := append(slices.Clone(document.Kinds()), "token", "jointoken", "bootstraptoken", "accesstoken", "session")
	return "", failure.Usage("there is no kind %q, only %s%s", word, strings.Join(kinds, ", "), document.Suggest(word, kinds))
}

// subject returns the subject of a person's name. Other subjects hold their kind.
func subject(by string) string {
	if by == "" || strings.Contains(by, ":") {
		return by
	}
	return "user:" + by
}

// credential returns what records hold for the id of an API token, which is 16 hexadecimal digits.
func credential(token string) string {
	if _, err := strconv.ParseUint(token, 16, 64); err == nil && len(token) == 16 {
		return "api." + token
	}
	return token
}

// parseTime reads a span before now, a date, or a time. Empty: nil.
func parseTime(flag, text string, now time.Time) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return timestamppb.New(now.AddDate(0, 0, -int(n))), nil
		}
	}
	if span, err := time.ParseDuration(text); err == nil && span >= 0 {
		return timestamppb.New(now.Add(-span)), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return timestamppb.New(at), nil
		}
	}
	return nil, failure.Usage("%s: %q is not a time; write 30d, 12h, 2026-11-01 or 2026-11-01T08:00:00Z", flag, text)
}

func (a *audit) run(ctx context.Context) error {
	c, err := a.session.Client()
	if err != nil {
		return err
	}
	records, latest, err := a.list(ctx, c)
	if err != nil {
		return err
	}
	style := a.session.Style(a.session.Out)
	if !a.follow {
		if len(records) == 0 && a.format == show.Table {
			_, err := fmt.Fprintln(a.session.Err, "There are no such records.")
			return err
		}
		return show.AuditRecords(a.session.Out, a.format, style, records)
	}
	slices.Reverse(records)
	out := show.NewAuditLog(a.session.Out, a.format, style)
	if err := out.Write(records); err != nil {
		return err
	}
	return a.watch(ctx, c, out, latest)
}

// list returns the newest records up to the limit, and the number of the latest record of all.
func (a *audit) list(ctx context.Context, c *client.Client) (records []*fleetv1.AuditRecord, latest int64, err error) {
	a.request.PageToken, a.request.After = "", 0
	for first := true; ; first = false {
		a.request.PageSize = auditPage
		if a.limit > 0 {
			a.request.PageSize = int32(min(auditPage, a.limit-len(records)))
		}
		res, err := a.call(ctx, c)
		if err != nil {
			return nil, 0, err
		}
		if first {
			latest = res.GetAfter()
		}
		records = append(records, res.GetRecords()...)
		if a.request.PageToken = res.GetNextPageToken(); a.request.PageToken == "" || a.limit > 0 && len(records) >= a.limit {
			a.request.PageToken = ""
			return records, latest, nil
		}
	}
}

// watch writes records as they are made, until ctx ends.
func (a *audit) watch(ctx context.Context, c *client.Client, out *show.AuditLog, latest int64) error {
	a.request.PageSize = auditPage
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for isFull := true; isFull; {
			if latest == 0 { // the log was empty: 1 is the number of its first record
				records, next, err := a.list(ctx, c)
				if err != nil {
					return err
				}
				slices.Reverse(records)
				if err := out.Write(records); err != nil {
					return err
				}
				latest = next
				break
			}
			a.request.After = latest
			res, err := a.call(ctx, c)
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				return err
			}
			if err := out.Write(res.GetRecords()); err != nil {
				return err
			}
			isFull, latest = len(res.GetRecords()) == auditPage, res.GetAfter()
		}
	}
}

func (a *audit) call(ctx context.Context, c *client.Client) (*fleetv1.ListAuditRecordsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	return c.ListAuditRecords(ctx, &a.request)
}
