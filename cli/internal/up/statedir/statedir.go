// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package statedir is the data folder of leat up: its lock, its secrets, and the paths of each
// part's files.
package statedir

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"github.com/leatdev/leat/cli/internal/settings"
	"github.com/leatdev/leat/internal/runtime/identity"
	"github.com/leatdev/leat/internal/runtime/private"
)

// InUseError means that another leat up uses the folder.
type InUseError struct {
	Dir string
	PID string // of the other process; empty if it is unknown
}

// Error implements error.
func (e *InUseError) Error() string {
	if e.PID == "" {
		return "another leat up is running on " + e.Dir
	}
	return fmt.Sprintf("another leat up is running on %s (process %s)", e.Dir, e.PID)
}

// Secrets are made once and never change.
type Secrets struct {
	AdminToken string `json:"adminToken"`
	// HubSecret is the distributor's secret. It seals the catalog, and the secrets of the other
	// services are derived from it.
	HubSecret string `json:"serviceSecret"`
}

// ServiceSecret returns the secret of a service of the hub.
func (s Secrets) ServiceSecret(service string) string {
	if service == identity.ServiceDistributor {
		return s.HubSecret
	}
	mac := hmac.New(sha256.New, []byte(s.HubSecret))
	mac.Write([]byte("secret of " + service))
	return hex.EncodeToString(mac.Sum(nil))
}

// ServiceKeys returns the public keys of the hub's services.
func (s Secrets) ServiceKeys() ([]string, error) {
	var keys []string
	for _, service := range []string{identity.ServiceDistributor, identity.ServiceGitCache, identity.ServiceTunnel} {
		key, err := identity.NewServiceKey([]byte(s.ServiceSecret(service)), service)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key.Public())
	}
	return keys, nil
}

// Dir is the folder, locked by this process.
type Dir struct {
	Secrets

	path string
	lock *flock.Flock
}

// Open locks the folder at path and creates missing files. The error is an *InUseError if another
// process holds it.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	if err := errors.Join(private.Dir(path), private.Dir(filepath.Join(path, "logs"))); err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	d := &Dir{path: path, lock: flock.New(filepath.Join(path, "lock"))}
	locked, err := d.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	if !locked {
		pid, _ := os.ReadFile(d.Path("pid")) // only for the message
		return nil, &InUseError{Dir: path, PID: strings.TrimSpace(string(pid))}
	}
	if err := d.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("open data directory: %w", err), d.lock.Unlock())
	}
	return d, nil
}

func (d *Dir) prepare() error {
	if err := settings.WriteFile(d.Path("pid"), fmt.Appendln(nil, os.Getpid())); err != nil {
		return err
	}
	// The folder is often inside a checkout, and holds secrets.
	if err := settings.WriteFile(d.Path(".gitignore"), []byte("*\n")); err != nil {
		return err
	}
	return d.loadSecrets()
}

func (d *Dir) loadSecrets() error {
	path := d.Path("secrets.json")
	content, err := os.ReadFile(path)
	if err == nil {
		if err := json.Unmarshal(content, &d.Secrets); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	d.Secrets = Secrets{
		AdminToken: "leat_" + strings.ToLower(rand.Text()+rand.Text()),
		HubSecret:  rand.Text() + rand.Text(),
	}
	if content, err = json.MarshalIndent(d.Secrets, "", "  "); err != nil {
		return err
	}
	return settings.WriteFile(path, append(content, '\n'))
}

// Path returns the path of a file or folder.
func (d *Dir) Path(elements ...string) string {
	return filepath.Join(append([]string{d.path}, elements...)...)
}

// Log returns the path of a part's log.
func (d *Dir) Log(part string) string {
	return d.Path("logs", strings.ReplaceAll(part, " ", "-")+".log")
}

// Close unlocks the folder.
func (d *Dir) Close() error {
	return errors.Join(os.Remove(d.Path("pid")), d.lock.Unlock())
}
