// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/leatdev/leat/internal/kit/amount"
	"github.com/leatdev/leat/internal/kit/durable"
	"github.com/leatdev/leat/internal/runtime/app"
	"github.com/leatdev/leat/internal/runtime/auditout"
	"github.com/leatdev/leat/internal/runtime/config"
	"github.com/leatdev/leat/internal/runtime/rpc"
	"github.com/leatdev/leat/internal/runtime/telemetry"
	"github.com/leatdev/leat/services/distributor/internal/api/people"
	"github.com/leatdev/leat/services/distributor/internal/keys/backup"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
	"github.com/leatdev/leat/services/distributor/internal/spine/journal"
	"github.com/leatdev/leat/services/distributor/internal/sqlstore"
)

// standard is the name of the standard input, or output, in place of a file's.
const standard = "-"

// StoreConfig names a hub's database, and the keys that open it. The settings are the
// distributor's.
type StoreConfig struct {
	// DatabaseURL is as in [Config]. Empty: the file leat.db in DataDir.
	DatabaseURL string
	// DataDir is as in [Config]. Required unless DatabaseURL is set.
	DataDir string
	// Service holds the service secret. It is the root of the sealing keys unless Keys names another.
	Service rpc.ServiceConfig
	Keys    KeyConfig
}

func (c *StoreConfig) bind(s *config.Set) {
	s.Group("Shared")
	c.Service.Bind(s)
	s.Group("Distributor")
	s.String(&c.DatabaseURL, "distributor-database-url", "", "where the catalog is: sqlite:///path/to/file.db or postgres://user@host/name; empty means leat.db in the data folder")
	s.File("distributor-database-url")
	s.String(&c.DataDir, "distributor-data-dir", "", "data folder of the distributor; required unless the database is named")
	c.Keys.bind(s)
}

func (c *StoreConfig) check() error {
	if c.DatabaseURL == "" && c.DataDir == "" {
		return config.Missing("distributor-database-url")
	}
	return c.Keys.check(&c.Service)
}

func (c *StoreConfig) open() (databaseURL string, keys sqlstore.Keys, err error) {
	keys, err = c.Keys.open(&c.Service)
	full := Config{DatabaseURL: c.DatabaseURL, DataDir: c.DataDir}
	return full.databaseURL(), keys, err
}

// BackupConfig holds the settings of `distributor backup`.
type BackupConfig struct {
	StoreConfig
	// File is where the backup is written; "-", and empty: standard output.
	File string
	// Stdout and Messages receive the backup, and a sentence about it. Nil: the process's.
	Stdout, Messages io.Writer
}

// Bind binds the fields.
func (c *BackupConfig) Bind(s *config.Set) {
	c.bind(s)
	s.Group("Backup")
	s.String(&c.File, "backup-file", standard, "file to write the backup to; - means the standard output")
	s.Check(c.check)
}

// Backup writes a backup of a hub's database to a file. The hub may be in use meanwhile: the backup
// is of one moment. A file that exists is replaced once the backup is whole.
func Backup(ctx context.Context, cfg BackupConfig) error {
	config.Complete(cfg.Bind)
	url, keys, err := cfg.open()
	if err != nil {
		return err
	}
	snapshot, err := sqlstore.OpenSnapshot(ctx, url, keys)
	if err != nil {
		return err
	}
	defer func() { _ = snapshot.Close() }() // it was only read
	header := backup.Header{MadeAt: time.Now().UTC().Truncate(time.Second), Version: app.Version(), Schema: snapshot.Schema()}
	var rows int64
	write := func(to io.Writer) error {
		w, err := backup.NewWriter(ctx, to, keys.Roots[0], header)
		if err != nil {
			return err
		}
		if rows, err = snapshot.Write(ctx, w); err != nil {
			return err // an unfinished backup is refused by restores
		}
		return w.Close()
	}
	if name := cmp.Or(cfg.File, standard); name != standard {
		err = durable.Write(name, ".leat-backup-*", write)
		if err == nil {
			err = durable.SyncDir(filepath.Dir(name))
		}
	} else {
		err = write(orElse[io.Writer](cfg.Stdout, os.Stdout))
	}
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	_, err = fmt.Fprintf(orElse[io.Writer](cfg.Messages, os.Stderr), "backup of %d rows made at %s; it opens with the root %s alone, which is not in it\n",
		rows, header.MadeAt.Format(time.RFC3339), keys.Roots[0].Name())
	return err
}

// RestoreConfig holds the settings of `distributor restore`.
type RestoreConfig struct {
	StoreConfig
	Telemetry telemetry.Config
	// Audit sets where the record of the restore goes, beside the database. Its output "stdout" is the
	// standard error here.
	Audit auditout.Config
	// File is the backup; "-", and empty: standard input.
	File string
	// Check only verifies the backup.
	Check bool
	// Replace deletes what the database holds.
	Replace bool
	// KeepTokens restores the API tokens of people.
	KeepTokens bool
	// Stdin is read for "-", and Messages receives a report. Nil: the process's.
	Stdin    io.Reader
	Messages io.Writer
}

// Bind binds the fields.
func (c *RestoreConfig) Bind(s *config.Set) {
	c.Telemetry.Bind(s)
	c.bind(s)
	c.Audit.Bind(s, program)
	s.Group("Restore")
	s.String(&c.File, "restore-file", standard, "backup to restore; - means the standard input")
	s.Bool(&c.Check, "restore-check", false, "only check that the backup is whole, and that this release and these keys can restore it")
	s.Bool(&c.Replace, "restore-replace", false, "delete what the database holds")
	s.Bool(&c.KeepTokens, "restore-keep-tokens", false, "restore API tokens, also those that were revoked after the backup; without it they end")
	s.Check(c.check)
}

// Restore restores a hub's database from a backup. No hub may use the database. It reads the backup
// twice: the first time it only checks it, so that it writes nothing of a damaged or foreign
// backup. The errors match the errors of package backup, sqlstore.ErrSchema or
// sqlstore.ErrNotEmpty, in sentences for people.
func Restore(ctx context.Context, cfg RestoreConfig) (err error) {
	config.Complete(cfg.Bind)
	url, keys, err := cfg.open()
	if err != nil {
		return err
	}
	file, closeFile, err := cfg.file()
	if err != nil {
		return fmt.Errorf("open backup: %w", err)
	}
	defer func() { err = errors.Join(err, closeFile()) }()
	messages := orElse[io.Writer](cfg.Messages, os.Stderr)
	reader, err := backup.NewReader(ctx, file, keys.Roots)
	if err != nil {
		return err
	}
	defer reader.Close()
	rows, err := sqlstore.Verify(ctx, reader, keys)
	if err != nil {
		return err
	}
	header := reader.Header
	if _, err := fmt.Fprintf(messages, "the backup is whole: %d rows, made at %s by release %s\n", rows, header.MadeAt.Format(time.RFC3339), header.Version); err != nil || cfg.Check {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read backup: %w", err)
	}
	again, err := backup.NewReader(ctx, file, keys.Roots)
	if err != nil {
		return err
	}
	defer again.Close()
	done, err := cfg.restore(ctx, url, keys, again)
	if err != nil {
		return err
	}
	return tell(messages, done)
}

// restore writes a verified backup into the database.
func (c *RestoreConfig) restore(ctx context.Context, url string, keys sqlstore.Keys, from *backup.Reader) (done *sqlstore.Restored, err error) {
	tel, err := telemetry.Start(ctx, c.Telemetry, program)
	if err != nil {
		return nil, err
	}
	defer tel.Shutdown(ctx)
	audited := c.Audit
	audited.Writer = orElse[io.Writer](audited.Writer, os.Stderr)
	outputs, err := auditout.Open(ctx, audited, auditout.Params{Service: program, Logger: tel.Logger(), Meter: tel.Meter(scope)})
	if err != nil {
		return nil, err
	}
	defer outputs.Close()
	target, err := sqlstore.OpenTarget(ctx, url, keys)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	records := journal.New(journal.Params{Store: target.Records(), Outputs: outputs, Describe: people.Describe, Logger: tel.Logger()})
	defer records.Close()
	ctx = catalog.WithOrigin(ctx, catalog.Origin{
		Reason: fmt.Sprintf("restored from the backup of %s by release %s", from.Header.MadeAt.Format(time.RFC3339), from.Header.Version),
	})
	return target.Restore(ctx, from, records, sqlstore.RestoreOptions{Replace: c.Replace, KeepTokens: c.KeepTokens})
}

// file returns the backup as a file, which can be read twice. It copies the standard input to a
// temporary file, which is sealed as the input is.
func (c *RestoreConfig) file() (*os.File, func() error, error) {
	if name := cmp.Or(c.File, standard); name != standard {
		file, err := os.Open(name)
		if err != nil {
			return nil, nil, err
		}
		return file, file.Close, nil
	}
	file, err := os.CreateTemp(c.DataDir, ".leat-restore-*")
	if err != nil {
		return nil, nil, err
	}
	remove := func() error { return errors.Join(file.Close(), os.Remove(file.Name())) }
	if _, err = io.Copy(file, orElse[io.Reader](c.Stdin, os.Stdin)); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return file, remove, nil
}

// tell reports what a restore did, and the remaining steps for a person.
func tell(to io.Writer, done *sqlstore.Restored) error {
	lines := []string{fmt.Sprintf("restored %d rows", done.Rows)}
	if done.EndedSessions > 0 {
		lines = append(lines, amount.Of(done.EndedSessions, "session")+" ended: people sign in again")
	}
	if done.EndedTokens > 0 {
		lines = append(lines, amount.Of(done.EndedTokens, "API token")+" ended: make new ones with leat create token")
	}
	for _, token := range done.Tokens {
		lines = append(lines, fmt.Sprintf("API token %s of %s (%s) is valid again, even if it was revoked after the backup: leat delete token/%s ends it",
			token.ID, token.User, cmp.Or(token.Label, "without a label"), token.ID))
	}
	lines = append(lines, fmt.Sprintf("removals are held in %s since %s: start the hub, put back what was made after the backup, and then run "+
		"leat cluster release NAME for each of them", amount.Of(done.Clusters, "cluster"), done.At.Format(time.RFC3339)))
	for _, line := range lines {
		if _, err := fmt.Fprintln(to, line); err != nil {
			return err
		}
	}
	return nil
}

// orElse returns a value, or another one if the value is the zero value.
func orElse[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}
