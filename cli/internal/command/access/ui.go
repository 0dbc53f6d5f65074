// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatdev/leat/cli/internal/client"
	"github.com/leatdev/leat/cli/internal/failure"
	"github.com/leatdev/leat/cli/internal/session"
)

// UI is `leat ui`.
func UI(s *session.Session) *cobra.Command {
	isPrinted, output := false, ""
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Open the hub's web UI, signed in",
		Long: `Open the web UI of the hub in a browser, and print its address. If you use an API token, the address holds a code that signs you in
in one browser, once, within a minute: pass it on to nobody. That sign-in ends after 12 h, with the API token, or when you sign out.
If you have signed in with an identity provider, sign in with it in the browser, too.

No browser opens with --print, with --output json, or where nobody would see it.`,
		Example: `  leat ui
  leat ui --print
  leat ui -o json | jq -r .url`,
		Args: cobra.NoArgs,
		RunE: s.Calling(func(ctx context.Context, c *client.Client, _ []string) error {
			if output != "" && output != "json" {
				return failure.Usage("--output: got %s, want json", output)
			}
			return openUI(ctx, s, c, isPrinted, output == "json")
		}),
	}
	cmd.Flags().BoolVar(&isPrinted, "print", false, "print the address, and open no browser")
	cmd.Flags().StringVarP(&output, "output", "o", "", "json: print the address and its end as JSON, and open no browser")
	return cmd
}

func openUI(ctx context.Context, s *session.Session, c *client.Client, isPrinted, isJSON bool) error {
	endpoint, err := s.Endpoint()
	if err != nil {
		return err
	}
	link, err := client.LinkOfUI(ctx, c, endpoint.Server)
	if errors.Is(err, client.ErrNoUI) {
		return failure.New("this hub has no web UI", "Use images or programs of a release, or build the web UI before: make ui.")
	}
	if err != nil {
		return err
	}
	server, err := url.Parse(endpoint.Server)
	if err != nil {
		return failure.New(err.Error(), "Correct the address.")
	}
	page, err := (&signIn{session: s, server: server}).page(link.URL)
	if err != nil {
		return err
	}
	if isJSON {
		return json.NewEncoder(s.Out).Encode(shownLink(page, link))
	}
	if _, err := fmt.Fprintln(s.Out, page); err != nil {
		return err
	}
	if !isPrinted && HasDisplay(s.LookupEnv) {
		OpenBrowser(ctx, s.LookupEnv, page.String())
	}
	return nil
}

// linkDocument is the form of a link in JSON.
type linkDocument struct {
	URL string `json:"url"`
	// ExpireTime is when the code in the address ends; empty: the address has none.
	ExpireTime string `json:"expireTime,omitempty"`
}

func shownLink(page *url.URL, link client.UILink) linkDocument {
	shown := linkDocument{URL: page.String()}
	if !link.Ends.IsZero() {
		shown.ExpireTime = link.Ends.UTC().Format(time.RFC3339)
	}
	return shown
}
