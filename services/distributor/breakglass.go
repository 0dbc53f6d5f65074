// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/leatdev/leat/internal/runtime/audit"
	"github.com/leatdev/leat/internal/runtime/auditout"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/access/admission"
	"github.com/leatdev/leat/services/distributor/internal/api/people"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/journal"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// Bounds of an emergency.
const (
	minEmergency, maxEmergency = time.Minute, 12 * time.Hour
	maxEmergencyReason         = 500
)

// BreakGlassConfig holds the settings of `distributor break-glass`.
type BreakGlassConfig struct {
	StoreConfig
	Telemetry telemetry.Config
	// Audit sets where the record of the new token goes, beside the database. Its output "stdout" is
	// the standard error here.
	Audit auditout.Config
	// Reason is why a person needs the token: one line for the record. Required.
	Reason string
	// Lifetime is how long the token is valid.
	Lifetime time.Duration
	// Stdout receives the token, and Messages a sentence about it. Nil: the process's.
	Stdout, Messages io.Writer
}

// Bind binds the fields.
func (c *BreakGlassConfig) Bind(s *config.Set) {
	c.Telemetry.Bind(s)
	c.bind(s)
	c.Audit.Bind(s, program)
	s.Group("Break glass")
	s.String(&c.Reason, "break-glass-reason", "", "why the token is needed; it goes on record")
	s.Duration(&c.Lifetime, "break-glass-lifetime", time.Hour, "how long the token is valid; at most 12h")
	s.Check(c.check)
}

func (c *BreakGlassConfig) check() error {
	switch {
	case strings.TrimSpace(c.Reason) == "":
		return config.Missing("break-glass-reason")
	case len(c.Reason) > maxEmergencyReason || !utf8.ValidString(c.Reason) || strings.ContainsFunc(c.Reason, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("--break-glass-reason must be one printable line of at most %d bytes", maxEmergencyReason)
	case c.Lifetime < minEmergency || c.Lifetime > maxEmergency:
		return fmt.Errorf("--break-glass-lifetime must be between %s and %s", minEmergency, maxEmergency)
	}
	return c.StoreConfig.check()
}

// BreakGlass makes an API token of [catalog.BreakGlassUser], who may do everything and whose every call
// is on record, and writes it to the standard output. It needs what the hub itself has: its database
// and its keys. The hub may be in use, and no identity provider is asked. A token whose record cannot be
// written is not made.
func BreakGlass(ctx context.Context, cfg BreakGlassConfig) (err error) {
	config.Complete(cfg.Bind)
	if err := cfg.check(); err != nil {
		return err
	}
	url, keys, err := cfg.open()
	if err != nil {
		return err
	}
	tel, err := telemetry.Start(ctx, cfg.Telemetry, program)
	if err != nil {
		return err
	}
	defer tel.Shutdown(ctx)
	cfg.Audit.Writer = orElse[io.Writer](cfg.Audit.Writer, os.Stderr) // scripts read the token from the standard output
	outputs, err := auditout.Open(ctx, cfg.Audit, auditout.Params{Service: program, Logger: tel.Logger(), Meter: tel.Meter(scope)})
	if err != nil {
		return err
	}
	defer outputs.Close()
	store, err := sqlstore.OpenWith(ctx, url, keys)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	records := journal.New(journal.Params{Store: sqlstore.RecordsOf(store), Outputs: outputs, Describe: people.Describe, Logger: tel.Logger()})
	defer records.Close()

	issued := catalog.Now()
	expires := issued.Add(cfg.Lifetime)
	user := catalog.User{Metadata: catalog.Metadata{Name: catalog.BreakGlassUser}, Spec: catalog.UserSpec{Groups: []string{catalog.AdminGroup}}}
	ctx = catalog.WithOrigin(ctx, catalog.Origin{Reason: strings.TrimSpace(cfg.Reason), RequestID: audit.NewID()})
	token := admission.NewAPIToken()
	label := "issued " + issued.UTC().Format(time.RFC3339Nano) // tokens of other emergencies stay
	if err := store.WithJournal(records).Tokens().EnsureToken(ctx, user, label, admission.Hash(token), expires); err != nil {
		return fmt.Errorf("make token: %w", err)
	}
	if _, err := fmt.Fprintf(orElse[io.Writer](cfg.Messages, os.Stderr), "the user %s may do everything until %s; each call with this token is on record, and "+
		"leat delete token/%s ends it earlier\n", catalog.BreakGlassUser, expires.UTC().Format(time.RFC3339), admission.TokenID(admission.Hash(token))); err != nil {
		return err
	}
	_, err = fmt.Fprintln(orElse[io.Writer](cfg.Stdout, os.Stdout), token)
	return err
}
