// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package session is the state that all of leat's commands share: their streams and environment,
// the flags that choose a hub, and the connection to it.
package session

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/settings"
	"github.com/leatdev/leat/cli/internal/show"
	"github.com/leatdev/leat/cli/internal/terminal"
	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/backoff"
)

// The environment variables that leat itself reads.
const (
	EnvServer    = "LEAT_SERVER"
	EnvToken     = "LEAT_TOKEN"
	EnvTokenFile = "LEAT_TOKEN_FILE"
	EnvConfig    = "LEAT_CONFIG"
	EnvContext   = "LEAT_CONTEXT"
	EnvCAFile    = "LEAT_CA_FILE"
	EnvProject   = "LEAT_PROJECT"
	EnvReason    = "LEAT_REASON"
)

// Session is one run of leat. It is filled before any command runs and only read afterwards.
type Session struct {
	LookupEnv func(string) (string, bool) // as os.LookupEnv
	In        io.Reader
	// Out and Err only show what they are given (see package terminal). Verbatim is Out without that, for
	// files and for recordings of terminals.
	Out, Err, Verbatim io.Writer

	flags flags
}

type flags struct {
	server, tokenFile, config, context, caFile, project, reason string
}

// Bind adds the flags that choose a hub, and the reason for changes.
func (s *Session) Bind(set *pflag.FlagSet) {
	set.StringVar(&s.flags.server, "server", "", "base URL of the hub's distributor (env "+EnvServer+"; default: that of the context)")
	set.StringVar(&s.flags.tokenFile, "token-file", "", "file that holds your API token (env "+EnvTokenFile+", or the token itself in "+EnvToken+")")
	set.StringVar(&s.flags.caFile, "ca-file", "", "PEM certificates to trust instead of the system's (env "+EnvCAFile+")")
	set.StringVar(&s.flags.context, "context", "", "the context to use instead of the current one (env "+EnvContext+")")
	set.StringVarP(&s.flags.project, "project", "p", "", "the project of names that do not say one (env "+EnvProject+"; default: that of the context, or default)")
	set.StringVar(&s.flags.reason, "reason", "", "why you make a change, such as a ticket; the hub keeps it with the record of the change (env "+EnvReason+")")
	set.StringVar(&s.flags.config, "config", "", "the config file (env "+EnvConfig+"; default: leat/config.yaml in your config folder)")
}

// Endpoint is a hub and the caller's identity there.
type Endpoint struct {
	Server string
	Token  string
	CAFile string
	// SessionFile is the file of the person's session, which signs in where there is no token; empty:
	// the person has no session.
	SessionFile string
	// Workload is where a job or a pod finds its own token, and WorkloadFile the file of its access
	// tokens. Nil: the context is a person's.
	Workload     *settings.Workload
	WorkloadFile string

	// Project is the project of names without one. It is never empty.
	Project string

	Context   string // the context that Server was taken from; empty if it was set by a flag or variable
	TokenFile string // the file that Token was read from; empty if it came from elsewhere
}

// Client connects to the hub that flags, environment and config file choose, in this order.
func (s *Session) Client() (*client.Client, error) {
	endpoint, err := s.Endpoint()
	if err != nil {
		return nil, err
	}
	return s.Connect(endpoint)
}

// Connect returns a client of an endpoint.
func (s *Session) Connect(endpoint Endpoint) (*client.Client, error) {
	caPEM, err := endpoint.CAPEM()
	if err != nil {
		return nil, err
	}
	params := client.Params{Server: endpoint.Server, Token: endpoint.Token, CAPEM: caPEM, Reason: s.Reason()}
	if endpoint.SessionFile != "" && endpoint.Token == "" {
		params.Session, err = client.OpenSession(endpoint.SessionFile, params)
	}
	if endpoint.Workload != nil && endpoint.Token == "" && err == nil {
		params.Workload, err = client.OpenWorkload(*endpoint.Workload, endpoint.WorkloadFile, s.LookupEnv, params)
	}
	if err == nil {
		var c *client.Client
		if c, err = client.New(params); err == nil {
			return c, nil
		}
	}
	return nil, failure.New(err.Error(), "Correct --server, "+EnvServer+" or the context.")
}

// Reason returns why the caller makes a change; empty: they gave no reason.
func (s *Session) Reason() string { return s.value(s.flags.reason, EnvReason) }

// CallTimeout bounds what the hub should answer at once.
const CallTimeout = 30 * time.Second

// Call connects to the hub. do receives the client, and a context that ends after CallTimeout.
func (s *Session) Call(ctx context.Context, do func(context.Context, *client.Client) error) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	return do(ctx, c)
}

// askEvery is how often Until asks.
const askEvery = time.Second

// Until asks the hub each second until ask reports that it is done, or returns an error that another call
// would not change. ask receives a context that ends after CallTimeout. After timeout, and one answer at
// least, the error matches context.DeadlineExceeded.
func (s *Session) Until(ctx context.Context, timeout time.Duration, ask func(context.Context, *client.Client) (isDone bool, err error)) error {
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		isDone := false
		err := s.Call(ctx, func(ctx context.Context, c *client.Client) (err error) {
			isDone, err = ask(ctx, c)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case isDone, err != nil && !client.IsTransient(err):
			return err
		}
		if err := backoff.Wait(waiting, askEvery); err != nil {
			return err
		}
	}
}

// Calling returns the action of a command that does nothing but [Session.Call].
func (s *Session) Calling(
	do func(ctx context.Context, c *client.Client, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return s.Fail(s.Call(cmd.Context(), func(ctx context.Context, c *client.Client) error { return do(ctx, c, args) }))
	}
}

// CAPEM returns the content of the CA file, or nil if there is none.
func (e Endpoint) CAPEM() ([]byte, error) {
	if e.CAFile == "" {
		return nil, nil
	}
	content, err := os.ReadFile(e.CAFile)
	if err != nil {
		return nil, failure.File(err, "The file should contain the certificates to trust; check --ca-file, "+EnvCAFile+" or the context's caFile.")
	}
	return content, nil
}

// Endpoint returns the chosen hub. The token of a context is sent only to that context's server,
// never to one that a flag or variable sets.
func (s *Session) Endpoint() (Endpoint, error) {
	endpoint := Endpoint{Server: s.value(s.flags.server, EnvServer), CAFile: s.value(s.flags.caFile, EnvCAFile)}
	context, ok, err := s.context()
	if err != nil {
		return Endpoint{}, err
	}
	if ok && (endpoint.Server == "" || endpoint.Server == context.Server) {
		endpoint.Server, endpoint.Token, endpoint.Context = context.Server, context.Token, context.Name
		endpoint.CAFile = cmp.Or(endpoint.CAFile, context.CAFile)
		endpoint.Project = context.Project
		if endpoint.SessionFile, err = s.besideConfig(context.Session); err != nil {
			return Endpoint{}, err
		}
		if endpoint.Workload = context.Workload; endpoint.Workload != nil {
			if endpoint.WorkloadFile, err = s.besideConfig(context.Workload.Cache); err != nil {
				return Endpoint{}, err
			}
		}
	}
	endpoint.Project = cmp.Or(s.value(s.flags.project, EnvProject), endpoint.Project, objectname.Default)
	if err := objectname.ValidateLabel("project", endpoint.Project); err != nil {
		return Endpoint{}, failure.Usage("%s", err.Error())
	}
	if endpoint.Server == "" {
		return Endpoint{}, failure.New("no hub is configured",
			"Log in with leat login SERVER, or set "+EnvServer+" and "+EnvToken+". To try Leat on this machine, run leat up.")
	}
	endpoint.Server = strings.TrimRight(endpoint.Server, "/")
	if err := s.token(&endpoint); err != nil {
		return Endpoint{}, err
	}
	return endpoint, nil
}

// EndpointIn returns the endpoint of a context, from the context alone.
func (s *Session) EndpointIn(c settings.Context) (Endpoint, error) {
	file, err := s.besideConfig(c.Session)
	endpoint := Endpoint{Server: c.Server, Token: c.Token, CAFile: c.CAFile, SessionFile: file, Context: c.Name, Workload: c.Workload}
	if c.Workload != nil && err == nil {
		endpoint.WorkloadFile, err = s.besideConfig(c.Workload.Cache)
	}
	return endpoint, err
}

// besideConfig returns the file of that name in the folder of sessions, or "" for no name.
func (s *Session) besideConfig(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	path, err := s.ConfigPath()
	return filepath.Join(filepath.Dir(path), "sessions", filepath.Base(name)), err
}

// EndpointOf returns the endpoint of a server that has no context yet.
func (s *Session) EndpointOf(server string) (Endpoint, error) {
	endpoint := Endpoint{Server: strings.TrimRight(server, "/"), CAFile: s.value(s.flags.caFile, EnvCAFile)}
	return endpoint, s.token(&endpoint)
}

// token applies a token from a flag or variable, which takes precedence over the context's.
func (s *Session) token(endpoint *Endpoint) error {
	path := s.flags.tokenFile
	if path == "" {
		if token, ok := s.LookupEnv(EnvToken); ok && token != "" {
			endpoint.Token = token
			return nil
		}
		path = s.value("", EnvTokenFile)
	}
	if path == "" {
		return nil
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("find token file: %w", err)
	}
	content, err := os.ReadFile(absolute)
	if err != nil {
		return failure.File(err, "The file should contain your API token; check --token-file or "+EnvTokenFile+".")
	}
	endpoint.Token, endpoint.TokenFile = strings.TrimSpace(string(content)), absolute
	return nil
}

// context returns the requested context, or the current one. ok is false if none was requested and
// there is no current one.
func (s *Session) context() (c settings.Context, ok bool, err error) {
	all, err := s.Settings()
	if err != nil {
		return c, false, err
	}
	asked := s.ContextName()
	c, ok = all.Context(asked)
	if !ok && asked != "" {
		return c, false, failure.New(fmt.Sprintf("there is no context %q", asked), "leat context lists the existing ones.")
	}
	return c, ok, nil
}

// ContextName returns the name of the context that flags and environment choose, or "" for the current
// one.
func (s *Session) ContextName() string { return s.value(s.flags.context, EnvContext) }

// Settings reads the config file.
func (s *Session) Settings() (*settings.Settings, error) {
	path, err := s.ConfigPath()
	if err != nil {
		return nil, err
	}
	all, err := settings.Load(path)
	if err != nil {
		return nil, failure.New(err.Error(), "Correct the file, or move it away and log in again.")
	}
	return all, nil
}

// ConfigPath returns the config file's absolute path.
func (s *Session) ConfigPath() (string, error) {
	if path := s.value(s.flags.config, EnvConfig); path != "" {
		return filepath.Abs(path)
	}
	return settings.DefaultPath()
}

func (s *Session) value(flag, env string) string {
	if flag != "" {
		return flag
	}
	value, _ := s.LookupEnv(env)
	return value
}

// Style returns how to write to w: with colours on a terminal, unless NO_COLOR (no-color.org) or a
// dumb terminal forbids it.
func (s *Session) Style(w io.Writer) show.Style {
	noColor, _ := s.LookupEnv("NO_COLOR")
	kind, _ := s.LookupEnv("TERM")
	return show.Style{Color: terminal.IsTerminal(w) && noColor == "" && kind != "dumb"}
}

// Confirm asks a question and returns true if the answer is yes. The end of the input is no.
func (s *Session) Confirm(question string) (bool, error) {
	if _, err := fmt.Fprintf(s.Err, "%s [y/N] ", question); err != nil {
		return false, err
	}
	answer, err := bufio.NewReader(s.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read answer: %w", err)
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// Fail converts err to a Failure. nil stays nil.
func (s *Session) Fail(err error) error {
	if err == nil {
		return nil
	}
	server := "the hub"
	if endpoint, endpointErr := s.Endpoint(); endpointErr == nil {
		server = endpoint.Server
	}
	return failure.From(err, server)
}
