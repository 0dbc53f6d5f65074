// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package settings stores which hubs a user has logged in to: leat's config.yaml.
//
//	currentContext: work
//	contexts:
//	- name: work
//	  server: https://leat.example.com
//	  token: leat_… (or session: NAME.json, for a sign-in with an identity provider)
//
// The file holds tokens, so it is only readable by its owner (0600). It is written by rename, so a
// reader never sees a partial file.
package settings

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/leatdev/leat/internal/kit/durable"
)

// Settings is the content of a config file. The zero value belongs to a user who has not logged in
// yet.
type Settings struct {
	CurrentContext string    `yaml:"currentContext,omitempty"` // name of the context that is used by default
	Contexts       []Context `yaml:"contexts,omitempty"`
}

// Context is one hub and the user's token there.
type Context struct {
	Name   string `yaml:"name"`
	Server string `yaml:"server"`          // base URL of the distributor
	Token  string `yaml:"token,omitempty"` // API token (leat_…)
	// Session names the file of a session with an identity provider, beside this file in the folder
	// sessions. Empty: the API token signs in.
	Session string `yaml:"session,omitempty"`
	// Workload is where a job or a pod finds its own token. Nil: the context is a person's.
	Workload *Workload `yaml:"workload,omitempty"`
	// CAFile names a PEM file with certificates to trust instead of the system's, for the hub and
	// for its tunnel. Empty: the system's.
	CAFile string `yaml:"caFile,omitempty"`
	// Project is the project that commands work in. Empty: default.
	Project string `yaml:"project,omitempty"`
}

// Workload is where a job of a CI system, or a pod, finds the token that its platform gives it. Without
// a file and a variable, GitHub Actions is asked.
type Workload struct {
	TokenFile string `yaml:"tokenFile,omitempty"`
	// TokenEnv is the name of a variable of the environment.
	TokenEnv string `yaml:"tokenEnv,omitempty"`
	// Audience is the audience to request from GitHub. Empty: the hub's address.
	Audience string `yaml:"audience,omitempty"`
	// Rule is the trust rule to name to the hub. Empty: the one that accepts the token.
	Rule string `yaml:"rule,omitempty"`
	// Cache names the file of access tokens, beside this file in the folder sessions.
	Cache string `yaml:"cache,omitempty"`
}

// DefaultPath returns where a user's settings are: leat/config.yaml in the system's folder for
// configuration.
func DefaultPath() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find settings: %w", err)
	}
	return filepath.Join(dir, "leat", "config.yaml"), nil
}

// Load reads the file at path. An absent file is an empty one.
func Load(path string) (*Settings, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &Settings{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	var s Settings
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	if err := decoder.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read settings: %s: %w", path, err)
	}
	return &s, nil
}

// Save writes the file at path and creates its folder if necessary.
func (s *Settings) Save(path string) error {
	content, err := yaml.Marshal(s)
	if err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	if err := WriteFile(path, content); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}

// WriteFile atomically writes a file that only its owner can read, and makes its folder if that does
// not exist.
func WriteFile(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.Write(path, ".new-*", func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// Context returns the named context, or the current one if name is empty. ok is false if there is
// none.
func (s *Settings) Context(name string) (c Context, ok bool) {
	name = cmp.Or(name, s.CurrentContext)
	i := s.index(name)
	if i < 0 {
		return Context{}, false
	}
	return s.Contexts[i], true
}

// Put adds or replaces a context and makes it the current one. A context without a project keeps the
// one that it had for the same server.
func (s *Settings) Put(c Context) {
	s.CurrentContext = c.Name
	if i := s.index(c.Name); i >= 0 {
		if s.Contexts[i].Server == c.Server {
			c.Project = cmp.Or(c.Project, s.Contexts[i].Project)
		}
		s.Contexts[i] = c
		return
	}
	s.Contexts = append(s.Contexts, c)
}

// SignOut forgets the token, the session and the workload of the named context.
func (s *Settings) SignOut(name string) {
	if i := s.index(name); i >= 0 {
		s.Contexts[i].Token, s.Contexts[i].Session, s.Contexts[i].Workload = "", "", nil
	}
}

// Use makes the named context the current one, and reports whether it exists.
func (s *Settings) Use(name string) bool {
	if s.index(name) < 0 {
		return false
	}
	s.CurrentContext = name
	return true
}

// SetProject makes a project the default of the named context, or of the current one if name is
// empty, and reports whether the context exists.
func (s *Settings) SetProject(name, project string) bool {
	i := s.index(cmp.Or(name, s.CurrentContext))
	if i < 0 {
		return false
	}
	s.Contexts[i].Project = project
	return true
}

// Names returns the names of all contexts.
func (s *Settings) Names() []string {
	names := make([]string, len(s.Contexts))
	for i, c := range s.Contexts {
		names[i] = c.Name
	}
	return names
}

func (s *Settings) index(name string) int {
	return slices.IndexFunc(s.Contexts, func(c Context) bool { return c.Name == name })
}
