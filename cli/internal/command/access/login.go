// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package access holds the commands about the caller's own access: contexts, access tokens and
// kubeconfigs.
package access

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/leatdev/leat/cli/internal/document"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
	"github.com/leatdev/leat/cli/internal/settings"
	fleetv1 "github.com/leatdev/leat/gen/go/leat/fleet/v1"
)

// Login is `leat login`.
func Login(s *session.Session) *cobra.Command {
	name := ""
	cmd := &cobra.Command{
		Use:   "login SERVER",
		Short: "Remember a hub and your token for it",
		Long: `Check a hub's address and your API token, and store both as a context of the config file, which becomes the current
one. The command prompts for the token, unless --token-file or LEAT_TOKEN provides it. Only you can read the file.`,
		Example: `  leat login https://leat.example.com
  leat login https://leat.example.com --token-file token.txt --name work`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("want the hub's address, such as https://leat.example.com")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.Fail(login(cmd.Context(), s, args[0], name))
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the context (default: the server's host name)")
	return cmd
}

func login(ctx context.Context, s *session.Session, server, name string) error {
	endpoint, err := s.EndpointOf(server)
	if err != nil {
		return err
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
	if err := remember(s, settings.Context{Name: name, Server: endpoint.Server, Token: endpoint.Token, CAFile: endpoint.CAFile}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "Logged in to %s as %s; the context is %q.\n", endpoint.Server, info.GetSubject(), name)
	return err
}

// askToken reads a token from the terminal without echo, or a line of the standard input.
func askToken(s *session.Session, server string) (string, error) {
	terminal, ok := s.In.(*os.File)
	if !ok || !session.IsTerminal(terminal) {
		line, err := bufio.NewReader(s.In).ReadString('\n')
		if token := strings.TrimSpace(line); token != "" {
			return token, nil
		}
		return "", failure.New("no token given", "Use --token-file or LEAT_TOKEN, or write it to the standard input."+inputError(err))
	}
	if _, err := fmt.Fprintf(s.Err, "Your API token for %s: ", server); err != nil {
		return "", err
	}
	token, err := term.ReadPassword(int(terminal.Fd()))
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

func hostOf(server string) string {
	parsed, err := url.Parse(server)
	if err != nil {
		return server
	}
	return parsed.Hostname()
}

func remember(s *session.Session, c settings.Context) (err error) {
	if c.CAFile != "" {
		if c.CAFile, err = filepath.Abs(c.CAFile); err != nil {
			return fmt.Errorf("find CA file: %w", err)
		}
	}
	all, err := s.Settings()
	if err != nil {
		return err
	}
	path, err := s.ConfigPath()
	if err != nil {
		return err
	}
	all.Put(c)
	return all.Save(path)
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
