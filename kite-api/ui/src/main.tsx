import "./styles/base.css";
import "./styles/components.css";
import "./styles/shell.css";
import "./styles/pages.css";
import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { BrowserRouter } from "react-router";
import { queries } from "./api/queries";
import { Language } from "./i18n";
import { applyTheme } from "./lib/theme";
import { Toasts } from "./components/Toasts";
import { App } from "./shell/App";
import { takeFailure } from "./shell/failure";

applyTheme();
takeFailure();

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <Language>
        <QueryClientProvider client={queries}>
          <BrowserRouter>
            <Toasts>
              <App />
            </Toasts>
          </BrowserRouter>
        </QueryClientProvider>
      </Language>
    </StrictMode>,
  );
}
