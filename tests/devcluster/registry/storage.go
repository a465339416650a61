package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/auth/token"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
	"github.com/sirupsen/logrus"
	"golang.org/x/crypto/bcrypt"
)

const (
	realm  = "devcluster"
	issuer = "devcluster-tokens"
)

// newStorage is the registry itself. Files that it needs are in dir.
func newStorage(ctx context.Context, opts options, dir, tokenServer string) (handler http.Handler, err error) {
	logrus.SetOutput(io.Discard)
	config := &configuration.Configuration{Storage: configuration.Storage{
		"inmemory": nil,
		"delete":   configuration.Parameters{"enabled": true},
	}}
	// An index may name what is not there: a client must cope with it.
	config.Validation.Disabled = true
	if opts.notify != "" {
		config.Notifications.Endpoints = []configuration.Endpoint{{
			Name: "webhook", URL: opts.notify, Timeout: time.Second, Threshold: 3, Backoff: time.Second,
		}}
	}
	switch {
	case tokenServer != "":
		config.Auth = configuration.Auth{"token": configuration.Parameters{
			"realm": tokenServer, "service": realm, "issuer": issuer, "jwks": filepath.Join(dir, "keys.json"),
		}}
	case opts.user != "":
		file := filepath.Join(dir, "htpasswd")
		if err := writePassword(file, opts.user, opts.password); err != nil {
			return nil, err
		}
		config.Auth = configuration.Auth{"htpasswd": configuration.Parameters{"realm": realm, "path": file}}
	}
	// Its way to report an error.
	defer func() {
		if wrong := recover(); wrong != nil {
			err = fmt.Errorf("distribution does not start: %v", wrong)
		}
	}()
	return handlers.NewApp(ctx, config), nil
}

func writePassword(file, user, password string) error {
	// The cheapest hash: it is computed anew for every request.
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		return err
	}
	return os.WriteFile(file, fmt.Appendf(nil, "%s:%s\n", user, hash), 0o600)
}
