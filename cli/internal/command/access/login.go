// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package access holds the commands about the caller's own access: contexts, access tokens and
// kubeconfigs.
package access

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/settings"
	"github.com/leatdev/leat/cli/internal/terminal"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
	"github.com/leatdev/leat/gen/go/leat/fleet/v1/fleetv1connect"
	"github.com/leatdev/leat/internal/contract/document"
)

// Login is `leat login`.
func Login(s *session.Session) *cobra.Command {
	var l loginFlags
	cmd := &cobra.Command{
		Use:   "login [SERVER]",
		Short: "Sign in to a hub and remember it",
		Long: `Sign in to a hub, and store its address and your sign-in as a context of the config file, which becomes the current one.
Without SERVER, sign in to the current context's hub again. Only you can read the files.

If the hub has an identity provider, a browser opens, and the address is printed, too. On a machine without a display, or with
--device, a code is printed, which you type at the hub's page in a browser on any machine. A session ends after 12 h at most.

With --token, or if the hub has no identity provider, you sign in with an API token: the command prompts for it, unless
--token-file or LEAT_TOKEN provides it.

With --workload, a job of a CI system or a pod signs in by the token that its platform gives it, so that nobody stores a secret there.
A trust rule of the hub has to accept that token.`,
		Example: `  leat login https://leat.example.com
  leat login https://leat.example.com --device
  leat login https://leat.example.com --token-file token.txt --name work
  leat login https://leat.example.com --workload
  leat login https://leat.example.com --workload-token-env LEAT_ID_TOKEN`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("want the hub's address, such as https://leat.example.com")
			}
			if l.token && (l.device || l.provider != "") {
				return errors.New("--token excludes --device and --provider")
			}
			if l.workload.isSet() && (l.token || l.device || l.provider != "") {
				return errors.New("--workload excludes --token, --device and --provider")
			}
			return l.workload.check()
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.Fail(login(cmd.Context(), s, args, l))
		},
	}
	cmd.Flags().StringVar(&l.name, "name", "", "name of the context (default: the server's host name)")
	cmd.Flags().BoolVar(&l.token, "token", false, "sign in with an API token")
	cmd.Flags().BoolVar(&l.device, "device", false, "open no browser here; show a code to type at the hub's page")
	cmd.Flags().StringVar(&l.provider, "provider", "", "the identity provider to sign in with (default: the hub's only one, or the one you choose)")
	l.workload.bind(cmd.Flags())
	return cmd
}

type loginFlags struct {
	name, provider string
	token, device  bool
	workload       workloadFlags
}

func login(ctx context.Context, s *session.Session, args []string, l loginFlags) error {
	server, name := "", l.name
	if len(args) == 1 {
		server = args[0]
	} else {
		current, err := s.Endpoint()
		if err != nil {
			return err
		}
		server, name = current.Server, cmp.Or(name, current.Context)
	}
	endpoint, err := s.EndpointOf(server)
	if err != nil {
		return err
	}
	if l.workload.isSet() {
		endpoint.Token = ""
		return loginAsWorkload(ctx, s, endpoint, name, l.workload)
	}
	if endpoint.Token == "" && !l.token {
		isDone, err := loginByProvider(ctx, s, endpoint, name, l)
		if isDone || err != nil {
			return failureAt(err, server)
		}
	}
	if endpoint.Token == "" {
		if endpoint.Token, err = askToken(s, server); err != nil {
			return err
		}
	}
	c, err := s.Connect(endpoint)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	info, err := c.GetServerInfo(ctx, &fleetv1.GetServerInfoRequest{})
	if err != nil {
		return failure.From(err, server)
	}
	name = cmp.Or(name, hostOf(endpoint.Server))
	if err := remember(ctx, s, settings.Context{Name: name, Server: endpoint.Server, Token: endpoint.Token, CAFile: endpoint.CAFile}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "Logged in to %s as %s; the context is %q.\n", endpoint.Server, info.GetSubject(), name)
	return err
}

func failureAt(err error, server string) error {
	if err == nil {
		return nil
	}
	return failure.From(err, server)
}

// loginByProvider signs in with an identity provider. isDone is false if the hub has none.
func loginByProvider(ctx context.Context, s *session.Session, endpoint session.Endpoint, name string, l loginFlags) (isDone bool, err error) {
	caPEM, err := endpoint.CAPEM()
	if err != nil {
		return false, err
	}
	params := client.Params{Server: endpoint.Server, CAPEM: caPEM}
	hub, err := client.Sessions(params)
	if err != nil {
		return false, failure.New(err.Error(), "Correct the address.")
	}
	methods, err := signInMethods(ctx, hub)
	if err != nil {
		return false, err
	}
	if len(methods.GetMethods()) == 0 {
		if l.device || l.provider != "" {
			return false, failure.New("the hub has no identity provider", "Sign in with an API token: leat login "+endpoint.Server+" --token.")
		}
		return false, nil
	}
	at, err := url.Parse(endpoint.Server)
	if err != nil {
		return false, failure.New(err.Error(), "Correct the address.")
	}
	i := signIn{session: s, server: at, hub: hub, methods: methods, provider: l.provider}
	made, token, err := i.run(ctx, l.device)
	if err != nil {
		return false, err
	}
	name = cmp.Or(name, hostOf(endpoint.Server))
	file := rand.Text() + ".json"
	config, err := s.ConfigPath()
	if err != nil {
		return false, err
	}
	if err := client.SaveSession(filepath.Join(filepath.Dir(config), "sessions", file), made.GetId(), token); err != nil {
		return false, err
	}
	if err := remember(ctx, s, settings.Context{Name: name, Server: endpoint.Server, Session: file, CAFile: endpoint.CAFile}); err != nil {
		return false, err
	}
	_, err = fmt.Fprintf(s.Out, "Logged in to %s as user:%s until %s; the context is %q.\n", endpoint.Server, made.GetPerson(),
		made.GetExpireTime().AsTime().UTC().Format(time.RFC3339), name)
	return true, err
}

// signInMethods asks a hub how people sign in. Older hubs do not know the question.
func signInMethods(ctx context.Context, hub fleetv1connect.SessionServiceClient) (*fleetv1.GetSignInMethodsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	methods, err := hub.GetSignInMethods(ctx, &fleetv1.GetSignInMethodsRequest{})
	if connect.CodeOf(err) == connect.CodeUnimplemented {
		return nil, nil
	}
	return methods, err
}

// Logout is `leat logout`.
func Logout(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "logout",
		Short: "Sign out of the current context's hub",
		Long: `End the session of the current context at the hub, and forget it here. Access tokens that were obtained with it end, too: within
30 s for new requests to clusters, and within about 90 s for running ones.

An API token is only forgotten here; leat delete token/ID ends it.`,
		Example: `  leat logout
  leat --context work logout`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.Fail(logout(cmd.Context(), s)) },
	}
}

func logout(ctx context.Context, s *session.Session) error {
	endpoint, err := s.Endpoint()
	if err != nil {
		return err
	}
	if endpoint.Context == "" {
		return failure.New("there is no context to sign out of", "leat context lists the contexts. A token from the environment is not stored.")
	}
	if err := signOut(ctx, endpoint); err != nil {
		return err
	}
	all, err := s.Settings()
	if err != nil {
		return err
	}
	path, err := s.ConfigPath()
	if err != nil {
		return err
	}
	all.SignOut(endpoint.Context)
	if err := all.Save(path); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "Signed out of %s. Sign in again with leat login.\n", endpoint.Server)
	return err
}

// askToken reads a token from the terminal without echo, or a line of the standard input.
func askToken(s *session.Session, server string) (string, error) {
	keyboard, ok := s.In.(*os.File)
	if !ok || !terminal.IsTerminal(keyboard) {
		line, err := bufio.NewReader(s.In).ReadString('\n')
		if token := strings.TrimSpace(line); token != "" {
			return token, nil
		}
		return "", failure.New("no token given", "Use --token-file or LEAT_TOKEN, or write it to the standard input."+inputError(err))
	}
	if _, err := fmt.Fprintf(s.Err, "Your API token for %s: ", server); err != nil {
		return "", err
	}
	token, err := term.ReadPassword(int(keyboard.Fd()))
	_, _ = fmt.Fprintln(s.Err)
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	return strings.TrimSpace(string(token)), nil
}

func inputError(err error) string {
	if err == nil || err.Error() == "EOF" {
		return ""
	}
	return " (" + err.Error() + ")"
}

// endReplaced ends a session that nothing here holds any more. If the hub does not answer, it ends by
// its time.
func endReplaced(ctx context.Context, s *session.Session, replaced settings.Context) {
	endpoint, err := s.EndpointIn(replaced)
	if err != nil {
		return
	}
	_ = signOut(ctx, endpoint)
}

// signOut ends the session of an endpoint, if it has one.
func signOut(ctx context.Context, endpoint session.Endpoint) error {
	if endpoint.SessionFile == "" {
		return nil
	}
	caPEM, err := endpoint.CAPEM()
	if err != nil {
		return err
	}
	held, err := client.OpenSession(endpoint.SessionFile, client.Params{Server: endpoint.Server, CAPEM: caPEM})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, session.CallTimeout)
	defer cancel()
	return held.SignOut(ctx)
}

// Context is `leat context`.
func Context(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context [NAME]",
		Short: "Show the hubs you know, or switch to one",
		Long: `Show the contexts of the config file, the current one marked with *, or make another the current one. --context uses
one for a single command, LEAT_CONTEXT for a shell.`,
		Example: `  leat context
  leat context work`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			all, err := s.Settings()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return all.Names(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return s.Fail(use(s, args[0]))
			}
			return s.Fail(listContexts(s))
		},
	}
	return cmd
}

func use(s *session.Session, name string) error {
	all, err := s.Settings()
	if err != nil {
		return err
	}
	if !all.Use(name) {
		return failure.New(fmt.Sprintf("there is no context %q%s", name, document.Suggest(name, all.Names())), "Make one with leat login SERVER --name "+name+".")
	}
	path, err := s.ConfigPath()
	if err != nil {
		return err
	}
	if err := all.Save(path); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "The context is %q now.\n", name)
	return err
}

func listContexts(s *session.Session) error {
	all, err := s.Settings()
	if err != nil {
		return err
	}
	if len(all.Contexts) == 0 {
		_, err := fmt.Fprintln(s.Err, "There are no contexts yet. Make one with leat login SERVER.")
		return err
	}
	for _, c := range all.Contexts {
		mark := " "
		if c.Name == all.CurrentContext {
			mark = "*"
		}
		if _, err := fmt.Fprintf(s.Out, "%s %-20s %s\n", mark, c.Name, c.Server); err != nil {
			return err
		}
	}
	return nil
}
